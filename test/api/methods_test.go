package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testMethods requests every path by every method. In each 405, including the answer to OPTIONS, Allow
// lists exactly the methods that the path supports. Then it requests each path with the conditions and
// codings of HTTP, so that a new route is tested by name.
func testMethods(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	paths := []string{"/", "/health/live", "/health/ready", "/api/openapi.json", "/api/openapi.yaml", "/api/docs"}
	for path := range v.loadSpec(t).paths {
		paths = append(paths, strings.ReplaceAll(path, "{id}", noID))
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			var supported []string
			var refused []answer
			for _, method := range []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"} {
				a := v.ask(t, "nobody", method+" "+path, "")
				if a.status == 405 {
					refused = append(refused, a)
				} else {
					supported = append(supported, method)
				}
			}
			require.NotEmpty(t, supported)
			require.NotEmpty(t, refused)
			for _, a := range refused {
				allowed := strings.Split(a.header.Get("Allow"), ", ")
				slices.Sort(allowed)
				require.Equal(t, supported, allowed)
			}
		})
	}
	for _, path := range paths {
		t.Run("conditions of "+path, func(t *testing.T) {
			if v.ask(t, "nobody", "HEAD "+path, "").status != 405 { // not of the WebSocket
				v.requireConditions(t, "ada@acme", path+requiredQueries[path])
			}
		})
	}
}
