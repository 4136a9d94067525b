package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testMethods asks every path by every method: Allow names those that work and
// no others, whether it comes with a refusal or with the answer to OPTIONS.
func testMethods(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))
	paths := []string{"/", "/health/live", "/health/ready", "/api/openapi.json", "/api/openapi.yaml", "/api/docs"}
	for path := range v.loadSpec(t).paths {
		paths = append(paths, strings.ReplaceAll(path, "{id}", noID))
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			var works []string
			var refused []answer
			for _, method := range []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"} {
				a := v.ask(t, "nobody", method+" "+path, "")
				if a.status == 405 {
					refused = append(refused, a)
				} else {
					works = append(works, method)
				}
			}
			require.NotEmpty(t, works)
			require.NotEmpty(t, refused)
			for _, a := range refused {
				allowed := strings.Split(a.header.Get("Allow"), ", ")
				slices.Sort(allowed)
				require.Equal(t, works, allowed)
			}
		})
	}
}
