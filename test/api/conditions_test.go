package api

import (
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requiredQueries are the queries of the routes that need one.
var requiredQueries = map[string]string{
	"/api/v1/runs": "?status=active", "/api/v1/search": "?q=a", "/api/v1/backlog": "?repo=" + noID,
	"/api/v1/audit/export": "?format=csv", "/api/v1/audit/state": "?seq=1", "/api/v1/audit/replay": "?fromSeq=1&toSeq=2",
}

// requireConditions requests a path as RFC 9110 allows: HEAD, refused and wanted codings, and conditions.
func (v *service) requireConditions(t *testing.T, as, path string) {
	head := v.ask(t, as, "HEAD "+path, "", "Accept-Encoding: identity")
	require.Empty(t, head.body)
	if head.header.Get("Content-Type") == "text/event-stream" { // it has no end
		require.Equal(t, 200, head.status)
		return
	}
	plain := v.ask(t, as, "GET "+path, "", "Accept-Encoding: gzip;q=0")
	require.Equal(t, plain.status, head.status)
	require.Empty(t, plain.header.Get("Content-Encoding"))
	for _, name := range []string{"Content-Type", "Cache-Control", "ETag", "Vary", "Accept-Ranges"} {
		require.Equal(t, plain.header.Get(name), head.header.Get(name), name)
	}
	packed := v.ask(t, as, "GET "+path, "", "Accept-Encoding: br;q=1, GZIP;q=0.5")
	require.Equal(t, plain.status, packed.status)
	if strings.HasPrefix(plain.header.Get("Content-Type"), "application/json") && plain.status == 200 && len(plain.body) > 2000 {
		require.Equal(t, "gzip", packed.header.Get("Content-Encoding"))
		require.Contains(t, packed.header.Values("Vary"), "Accept-Encoding")
		z, err := gzip.NewReader(strings.NewReader(packed.body))
		require.NoError(t, err)
		text, err := io.ReadAll(z)
		require.NoError(t, err)
		require.InDelta(t, len(plain.body), len(text), 100) // times in it differ
	}
	plainTag, packedTag := plain.header.Get("ETag"), packed.header.Get("ETag")
	if plainTag == "" {
		return
	}
	if packed.header.Get("Content-Encoding") == "gzip" {
		require.NotEqual(t, plainTag, packedTag, "another representation")
	}
	many := strings.Repeat(`"one-of-many-other-tags", `, 200)
	for _, tag := range []string{plainTag, packedTag} {
		for _, sent := range []string{tag, "W/" + tag, "*", many + tag, tag + ", " + many} {
			a := v.ask(t, as, "GET "+path, "", "If-None-Match: "+sent, "Accept-Encoding: gzip")
			if sent != "*" && tag == plainTag && plainTag != packedTag && a.status == 200 {
				continue // it is the tag of the other coding
			}
			require.Equal(t, 304, a.status, sent[:min(len(sent), 60)])
			require.Empty(t, a.body)
			require.NotEmpty(t, a.header.Get("ETag"))
		}
	}
	require.Equal(t, 304, v.ask(t, as, "GET "+path, "", `If-None-Match: "x"`, "If-None-Match: "+packedTag, "Accept-Encoding: gzip").status)
	require.Equal(t, 200, v.ask(t, as, "GET "+path, "", `If-None-Match: "x", W/"y"`).status)
}
