package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// testMembers pages through members by cursor, one per page, and searches for them by word prefixes.
func testMembers(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	names := func(query string) (list []string, next string) {
		body := v.ask(t, "ada@acme", "GET /api/v1/members?"+query, "").is(t, "200")
		for i := range body.at(t, "items").([]any) {
			list = append(list, body.text(t, fmt.Sprintf("items.%d.name", i)))
		}
		var more struct{ NextCursor string }
		require.NoError(t, json.Unmarshal([]byte(body.body), &more))
		if more.NextCursor != "" {
			next = "&cursor=" + url.QueryEscape(more.NextCursor)
		}
		return list, next
	}
	for _, query := range []string{"", "role=Maintainer&", "q=acme&"} {
		all, none := names(query + "limit=100")
		require.Empty(t, none)
		require.Greater(t, len(all), 1, query)
		var paged []string
		for next, started := "", false; next != "" || !started; started = true {
			var page []string
			page, next = names(query + "limit=1" + next)
			require.Len(t, page, 1)
			paged = append(paged, page...)
		}
		require.Equal(t, all, paged, query)
	}
	brandts, _ := names("q=BRANDT")
	require.Contains(t, brandts, "Leo Brandt")
	nobody, _ := names("q=randt")
	require.Empty(t, nobody)

	const auth = "GET /api/auth/organization/list-members?organizationSlug=acme&offset="
	v.ask(t, "ada@acme", auth+"10000", "").is(t, "200")
	v.ask(t, "ada@acme", auth+"10001", "").is(t, "400 VALIDATION_ERROR")
}
