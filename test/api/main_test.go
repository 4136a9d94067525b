// Package api tests the REST service over the network, as its callers use it: with
// processes of the built programs on a PostgreSQL database.
package api

import (
	"testing"

	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestAPI creates the fixture once: programs, an engine and a seeded database. Each
// part starts its own services on clones of that database, so that parts do not affect
// each other. When all parts have ended, the output of the processes and the databases
// are searched for secrets.
func TestAPI(t *testing.T) {
	s := newFixture(t)
	t.Run("parts", func(t *testing.T) {
		for name, part := range parts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				part(t, s)
			})
		}
	})
	for name, part := range exclusiveParts {
		t.Run(name, func(t *testing.T) { part(t, s) })
	}
	t.Run("no secret was kept", func(t *testing.T) { testSecrets(t, s) })
}

// exclusiveParts run one at a time after the others, since they use all processors.
var exclusiveParts = map[string]func(*testing.T, *fixture){}

// parts run in parallel. Those listed here have concurrency of their own and therefore run
// under the race detector, too; see sequentialParts for the others.
var parts = map[string]func(*testing.T, *fixture){
	"exports":    testExports,
	"parallel":   testParallel,
	"positions":  testPositions,
	"rate limit": testRateLimit,
	"replicas":   testReplicas,
	"revocation": testRevocation,
	"stop":       testStop,
	"streams":    testStreams,
}
