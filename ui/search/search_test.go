package search

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// A search is one request to the service with at most maxLetters. An empty search is none.
func TestSearchIsOneRequest(t *testing.T) {
	t.Parallel()
	var queries []string
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.Query().Get("q"))
		_, _ = io.WriteString(w, `{"members":[{"id":"m1","name":"<b>Mia</b>","email":"mia@acme.example","displayRole":"Owner"}],`+
			`"runs":[{"id":"r1","issueNumber":7,"issueTitle":"","status":"needs_input","prNumber":1291,"repo":{"id":"","name":"acme/web"}}],`+
			`"jobs":[{"id":"j1","name":"build","repoName":"acme/api","state":"timed_out"}],`+
			`"serviceAccounts":[{"id":"a1","name":"ci-bot","status":"active"}],"runners":[]}`)
	}))
	t.Cleanup(rest.Close)
	search := func(q string) string {
		r := httptest.NewRequest(http.MethodGet, "/w/acme/search?q="+url.QueryEscape(q), nil)
		r.Header.Set("HX-Request", "true")
		r.SetPathValue("workspace", "acme")
		shown, err := show(&page.Visit{Request: r, API: client.NewService(rest.URL).NewSession(r, "acme")})
		require.NoError(t, err)
		var text strings.Builder
		require.NoError(t, shown.Part.Render(t.Context(), &text))
		return text.String()
	}
	require.Empty(t, search("  "))
	text := search(strings.Repeat("ö", maxLetters+100))
	require.Equal(t, []string{strings.Repeat("ö", maxLetters)}, queries)
	for _, part := range []string{
		"&lt;b&gt;Mia", `data-href="/w/acme/members?q=mia%40acme.example"`, "(no title)", "acme/web #7, PR #1291", "Needs input",
		`data-href="/w/acme/farm/jobs/j1"`, "acme/api", "Timed out",
		`data-href="/w/acme/runs/r1"`, `data-href="/w/acme/service-accounts#account-a1"`,
	} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "Runners")
}
