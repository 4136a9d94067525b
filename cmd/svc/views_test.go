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

// Whoever pastes the README's tour the moment that svc says it runs gets the
// answers that are shown there.
func TestItRunsOnceTheDemonstrationIsInTheViewsAndSigned(t *testing.T) {
	s := newSite(t)
	r := s.start(t, "SVC_TEST_BEHIND=1").until("waiting for the views")
	database := s.database(t)
	require.NoError(t, takeIn(t.Context(), database, "%s")) // runs, decisions …
	require.NoError(t, takeIn(t.Context(), database, "audit"))
	require.NoFileExists(t, filepath.Join(s.data, "dev.json"))
	require.NoError(t, takeIn(t.Context(), database, proof.View))
	r.up()
	_, _ = r.stop()
}

// A record that was changed by hand stands still in the proof for ever, and is
// to be looked at in a service that runs.
func TestAViewThatStandsStillDoesNotKeepItFromRunning(t *testing.T) {
	database := pgtest.URL(t)
	c, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer c.Close(context.WithoutCancel(t.Context()))
	_, err = c.Exec(t.Context(), `insert into logs (workspace_id, head, last_at) values (gen_random_uuid(), 3, now())`)
	require.NoError(t, err)
	require.NoError(t, takeIn(t.Context(), database, "%"))
	_, err = c.Exec(t.Context(), `update checkpoints set seq = 2 where view = 'proof'`)
	require.NoError(t, err)

	var said bytes.Buffer
	out := &output{w: &said}
	stack := &stack{out: out, log: out.logger("svc")}
	require.NoError(t, stack.awaitViews(t.Context(), database, time.Millisecond))
	require.Contains(t, said.String(), `WARN: views are behind the log views="proof"`)
}

// database is the address of the private one, before dev.json has it.
func (s *site) database(t *testing.T) string {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(s.data, "postgres", name))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	return "postgres://svc:" + read("password") + "@" + read("address") + "/" + finalName + "?sslmode=disable"
}
