// Package api talks to the REST service as its callers do: over the network,
// with real processes of the built programs on a real database. It imports
// nothing of the service's own but the tests' databases.
package api

import (
	"testing"

	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestAPI makes the site once: programs, an engine and a seeded database. Each
// part then works with services of its own on clones of that database, so that
// no part sees what another does. What the processes said and the databases
// hold is searched for secrets when all of them have ended.
func TestAPI(t *testing.T) {
	s := newSite(t)
	t.Run("when running", func(t *testing.T) {
		for name, part := range parts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				part(t, s)
			})
		}
	})
	for name, part := range afterwards {
		t.Run(name, func(t *testing.T) { part(t, s) })
	}
	t.Run("no secret was kept", func(t *testing.T) { testSecrets(t, s) })
}

// afterwards are parts that leave no processor to others.
var afterwards = map[string]func(*testing.T, *site){}

// parts are the parts in which requests meet each other, or what runs behind them.
var parts = map[string]func(*testing.T, *site){
	"exports":    testExports,
	"parallel":   testParallel,
	"positions":  testPositions,
	"rate limit": testRateLimit,
	"replicas":   testReplicas,
	"revocation": testRevocation,
	"stop":       testStop,
	"streams":    testStreams,
}
