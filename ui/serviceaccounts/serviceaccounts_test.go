package serviceaccounts

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// The example command calls the public address of the service, which people can reach, and is left out if none is known.
func TestExampleCommandCallsThePublicAddress(t *testing.T) {
	t.Parallel()
	render := func(address string, scope client.ServiceAccountScopes) string {
		r := httptest.NewRequest(http.MethodPost, "/w/acme/service-accounts", nil)
		v := &page.Visit{Request: r, PublicAPI: address, API: client.NewService("http://internal:4000").NewSession(r, "acme")}
		token := &client.TokenAnswerBody{Token: "tok_svc_1"}
		token.Account.Scopes = []client.ServiceAccountScopes{scope}
		var out bytes.Buffer
		require.NoError(t, newTokenDialog(v, token).Render(t.Context(), &out))
		return out.String()
	}
	require.Contains(t, render("https://api.example", "api.read"), "https://api.example/api/v1/runs?status=active")
	require.Contains(t, render("https://api.example", "farm.submit"), "https://api.example/api/v1/farm/jobs")
	require.NotContains(t, render("https://api.example", "api.read"), "internal")
	unknown := render("", "api.read")
	require.NotContains(t, unknown, "curl")
	require.NotContains(t, unknown, "Try it out")
}
