package codehost

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestAddressesOfHosts(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"140.82.121.3": true, "10.1.2.3": true, "192.168.1.1": true, "2001:db8::1": true, "fd12::1": true,
		"127.0.0.1": false, "127.9.9.9": false, "::1": false, "::ffff:127.0.0.1": false, "0.0.0.0": false, "::": false, "0.1.2.3": false,
		"169.254.169.254": false, "fe80::1": false, "fd00:ec2::254": false, "100.100.100.200": false, "224.0.0.1": false, "ff02::1": false,
	} {
		require.Equal(t, ok, public(netip.MustParseAddr(text)), text)
	}
	n := NewNetwork(false)
	defer n.Close()
	for _, name := range []string{"localhost", "127.0.0.1", "169.254.169.254"} {
		_, err := n.Resolve(t.Context(), name)
		require.ErrorContains(t, err, "may not be used", name)
	}
}

func TestClientDoesNotReachThisMachine(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	n := NewNetwork(false)
	defer n.Close()
	host, err := New(client.Repository{Kind: "github", Name: "acme/web", API: s.URL}, n)
	require.NoError(t, err)
	_, err = host.Repository(t.Context())
	var f *client.Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, client.CodeNoRepository, f.Code)
}

// In development hosts may be on this machine, and still not where clouds tell their machines secrets.
func TestClientReachesNoMetadata(t *testing.T) {
	t.Parallel()
	n := NewNetwork(true)
	defer n.Close()
	for _, address := range []string{"169.254.169.254:443", "[fd00:ec2::254]:443", "0.0.0.0:443"} {
		_, err := n.transport.DialContext(t.Context(), "tcp", address)
		require.ErrorIs(t, err, errAddress, address)
	}
}

func TestRedirectsAreFollowedOnceOnTheSameHost(t *testing.T) {
	t.Parallel()
	for kind, api := range map[string]string{"github": "/api/v3", "gitea": "/api/v1"} {
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the credential left the host") }))
		defer other.Close()
		mux := http.NewServeMux()
		mux.Handle(api+"/repos/old/name", http.RedirectHandler(api+"/repos/new/name", 301))
		mux.Handle(api+"/repos/twice/name", http.RedirectHandler(api+"/repos/old/name", 301))
		mux.Handle(api+"/repos/away/name", http.RedirectHandler(other.URL, 301))
		mux.HandleFunc(api+"/repos/new/name", func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "Bearer the-token", r.Header.Get("Authorization"))
			_, _ = w.Write([]byte(`{"id":1,"full_name":"new/name"}`))
		})
		s := httptest.NewServer(mux)
		defer s.Close()
		n := NewNetwork(true)
		defer n.Close()
		ask := func(name string) (Repository, error) {
			host, err := New(client.Repository{Kind: kind, Name: name, API: s.URL + api, Credential: client.Credential{Token: "the-token"}}, n)
			require.NoError(t, err)
			return host.Repository(t.Context())
		}
		found, err := ask("old/name")
		require.NoError(t, err)
		require.Equal(t, "new/name", found.Name)
		for _, name := range []string{"twice/name", "away/name"} {
			_, err := ask(name)
			require.ErrorContains(t, err, "may have been renamed", name)
		}
	}
}

func TestNamesAndAddresses(t *testing.T) {
	t.Parallel()
	strict, lax := NewNetwork(false), NewNetwork(true)
	defer strict.Close()
	defer lax.Close()
	for _, name := range []string{"", "acme", "acme/", "/web", "acme/..", "acme/web/x", "a b/c", "../x", "acme/web?x"} {
		_, err := New(client.Repository{Kind: "github", Name: name}, strict)
		require.Error(t, err, name)
	}
	for _, api := range []string{"http://host/api", "ftp://host", "https://", "https://u:p@host"} {
		_, err := New(client.Repository{Kind: "github", Name: "acme/web", API: api}, strict)
		require.Error(t, err, api)
	}
	_, err := New(client.Repository{Kind: "github", Name: "acme/web", API: "http://host/api"}, lax)
	require.NoError(t, err)
	for _, kind := range []string{"svn", "gitea"} { // there is no public Gitea that a token could be sent to
		_, err = New(client.Repository{Kind: kind, Name: "acme/web"}, lax)
		require.Error(t, err)
	}
}
