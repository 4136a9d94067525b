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
	require.ErrorContains(t, err, "The service is not responding: the others are not invited. one@acme.example is invited.")
	require.Equal(t, unsentInvites{"two@acme.example, three@acme.example", "Viewer"}, unsentInvitesOf(v))
	require.Equal(t, 2, requests)
}
