package page

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A form that is sent twice has the same key; any other request has another.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	key := func(path string, form url.Values, part ...string) string {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		got := (&Visit{Request: r}).IdempotencyKey(part...)
		if got == nil {
			return ""
		}
		return *got
	}
	queue := func(title, nonce string) url.Values { return url.Values{"title": {title}, "key": {nonce}} }
	require.Empty(t, key("/w/acme/runs", queue("one", "")))
	require.Equal(t, key("/w/acme/runs", queue("one", "1"), "a"), key("/w/acme/runs?page=2", queue("one", "1"), "a"))
	keys := map[string]bool{
		key("/w/acme/runs", queue("one", "1")):           true,
		key("/w/acme/runs", queue("two", "1")):           true,
		key("/w/acme/runs", queue("one", "2")):           true,
		key("/w/acme/needs", queue("one", "1")):          true,
		key("/w/acme/runs", queue("one", "1"), "a"):      true,
		key("/w/acme/runs", queue("one", "1"), "a", "b"): true,
		key("/w/acme/runs", queue("one", "1"), "ab"):     true,
	}
	require.Len(t, keys, 7)
}
