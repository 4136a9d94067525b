package middleware_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
)

// RFC 9110, section 12.5.3.
func TestAcceptEncoding(t *testing.T) {
	for accepts, want := range map[string]struct{ large, small bool }{
		"": {}, "gzip": {large: true}, "GZIP": {large: true}, "x-gzip": {large: true}, "br, gzip;q=0.5": {large: true}, "*": {large: true},
		"deflate, br": {}, "gzip;q=0": {}, "gzip; q=0.000": {}, "*;q=0": {}, "identity": {}, "gzip;q=0, *": {}, "gzip;q=x": {}, "notgzip": {},
		"identity, gzip;q=0.5": {}, "gzip, identity;q=0.5": {large: true}, "gzip, identity;q=0": {true, true}, "gzip, *;q=0": {true, true},
		"identity;q=0, *": {true, true}, "gzip;q=0, identity;q=0": {},
	} {
		h := http.Header{"Accept-Encoding": {accepts}}
		require.Equal(t, want.large, middleware.WantsGzip(h, 1<<20), accepts)
		require.Equal(t, want.small, middleware.WantsGzip(h, 10), accepts)
	}
	require.False(t, middleware.WantsGzip(http.Header{}, 1<<20))
	require.True(t, middleware.WantsGzip(http.Header{"Accept-Encoding": {"br", "gzip"}}, 1<<20), "lines are one list")
}

func TestMatchesETag(t *testing.T) {
	const tag = `"a-1"`
	for header, want := range map[string]bool{
		tag: true, `W/"a-1"`: true, "*": true, " * ": true, `"b","a-1"`: true, `"b" , W/"a-1" ,`: true,
		"": false, "a-1": false, `"a-`: false, `w/"a-1"`: false, `"**"`: false,
	} {
		require.Equal(t, want, middleware.MatchesETag(header, tag), header)
	}
}
