package members

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// If the service fails half-way, the notice still names those who were invited.
func TestInvitePartialFailure(t *testing.T) {
	t.Parallel()
	requests := 0
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests > 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(rest.Close)
	form := url.Values{"email": {"one@acme.example, two@acme.example three@acme.example"}, "role": {"Viewer"}}
	r := httptest.NewRequest(http.MethodPost, "/w/acme/members/invite", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	v := &page.Visit{Request: r, API: client.NewService(rest.URL).NewSession(r, "acme")}
	_, err := invite(v)
	reason := "The service is not responding: the others are not invited. one@acme.example is invited as Viewer."
	require.ErrorContains(t, err, reason)
	require.Equal(t, unsentInvites{"two@acme.example, three@acme.example", "Viewer", reason}, unsentInvitesOf(v))
	require.Equal(t, 2, requests)
}

// Addresses are separated by commas, semicolons, lines or blanks. Words that are no addresses stay together in the refusal.
func TestSeparatedAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": nil, " , ": nil, " a@x.example ": {"a@x.example"},
		"a@x.example, b@x.example;c@x.example\nd@x.example e@x.example": {
			"a@x.example", "b@x.example", "c@x.example", "d@x.example", "e@x.example",
		},
		"not an address": {"not an address"}, "a@x.example, Bob <b@x.example>": {"a@x.example", "Bob <b@x.example>"},
	} {
		require.Equal(t, want, separated(text), text)
	}
	require.Equal(t, "“not an address” is not an email address.", firstFault(separated("a@x.example, not an address")))
	require.Equal(t, "Enter an email address.", firstFault(nil))
	require.Empty(t, firstFault(separated("a@x.example")))
}
