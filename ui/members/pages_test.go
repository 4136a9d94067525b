package members

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// Pages go forward by cursor and back by offset, and keep the search.
func TestPagesOfMembers(t *testing.T) {
	t.Parallel()
	next := client.MemberList{NextCursor: new("c2"), Items: make([]client.Member, perPage)}
	for _, c := range []struct{ query, first, previous, next string }{
		{"", "", "", "?cursor=c2&from=100"},
		{"?cursor=c1&from=100", "", "", "?cursor=c2&from=200"},
		{"?cursor=c1&from=200&q=a", "?q=a", "?from=100&q=a", "?cursor=c2&from=300&q=a"},
		{"?from=100", "", "", "?cursor=c2&from=200"},
		{"?cursor=c1&from=1100&q=a", "?q=a", "?from=1000&q=a", "?cursor=c2&from=1200&q=a"},
		{"?cursor=c1&from=1200", "", "", "?cursor=c2&from=1300"},
		{"?cursor=c1&from=x", "", "", "?cursor=c2&from=100"},
	} {
		v := &page.Visit{Request: httptest.NewRequest(http.MethodGet, "/w/acme/members"+c.query, nil)}
		require.Equal(t, "/w/acme/members"+c.next, nextPage(v, pageData{Members: next}), c.query)
		if c.previous != "" {
			require.Equal(t, "/w/acme/members"+c.previous, previousPage(v), c.query)
			require.Equal(t, "/w/acme/members"+c.first, firstPage(v), c.query)
		}
	}
	v := &page.Visit{Request: httptest.NewRequest(http.MethodGet, "/w/acme/members", nil)}
	require.Empty(t, firstPage(v))
	require.Empty(t, previousPage(v))
	v.URL.RawQuery = "cursor=c1&from=100"
	require.Equal(t, "/w/acme/members", previousPage(v))
	v.URL.RawQuery = "cursor=c1&from=1200"
	require.Empty(t, previousPage(v), "an offset that the service does not accept")
	v.URL.RawQuery = "cursor=c1&from=100&q=a%26b&role=Owner&invited=100"
	require.Equal(t, "?q=a%26b&role=Owner", exportPath(v)[len(v.Path("members", "export.csv")):])
}
