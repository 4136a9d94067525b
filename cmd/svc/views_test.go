package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/proof"
	"svc/test/pgtest"
)

// As soon as svc reports that it runs, the README's commands return the results shown there.
func TestStartWaitsForViewsAndSignatures(t *testing.T) {
	s := newSite(t)
	r := s.start(t, "SVC_TEST_BEHIND=1").until("waiting for the views")
	database := s.database(t)
	require.NoError(t, advanceCheckpoints(t.Context(), database, "%s")) // views whose names end in s: runs, decisions …
	require.NoError(t, advanceCheckpoints(t.Context(), database, "audit"))
	require.NoFileExists(t, filepath.Join(s.data, "dev.json"))
	require.NoError(t, advanceCheckpoints(t.Context(), database, proof.FollowerName))
	r.awaitUp()
	_, _ = r.stop()
}

// A record that was changed by hand blocks the prover for ever. The service must run nevertheless,
// so that it can be examined.
func TestStuckViewDoesNotPreventStart(t *testing.T) {
	database := pgtest.URL(t)
	c, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer c.Close(context.WithoutCancel(t.Context()))
	_, err = c.Exec(t.Context(), `insert into logs (workspace_id, head, last_at) values (gen_random_uuid(), 3, now())`)
	require.NoError(t, err)
	require.NoError(t, advanceCheckpoints(t.Context(), database, "%"))
	_, err = c.Exec(t.Context(), `update checkpoints set seq = 2 where view = 'proof'`)
	require.NoError(t, err)

	var said bytes.Buffer
	out := &output{w: &said}
	stack := &stack{out: out, log: out.logger("svc")}
	require.NoError(t, stack.awaitViews(t.Context(), database, time.Millisecond))
	require.Contains(t, said.String(), `WARN: views are behind the log views="proof"`)
}

// database returns the URL of the private database before dev.json has it.
func (s *site) database(t *testing.T) string {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(s.data, "postgres", name))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	return "postgres://svc:" + read("password") + "@" + read("address") + "/" + finalName + "?sslmode=disable"
}
