package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/proof"
)

func TestVerifyReportsTheFirstBadRecord(t *testing.T) {
	t.Parallel() // it waits for a signature that never comes
	d := newDatabase(t)
	require.Equal(t, 1, runHere(t, d.environ, "verify").status, "of a database that is not migrated")
	require.Zero(t, runHere(t, d.environ).status)
	r := runHere(t, d.environ, "verify")
	require.Zero(t, r.status, r.stderr)
	require.Equal(t, "verifier key in the database: none yet\n", r.stdout)

	good, bad := events.NewID(time.Now()), events.NewID(time.Now())
	key := d.createSignedLogs(t, good, bad)
	r = runHere(t, d.environ, "verify")
	require.Zero(t, r.status, r.stderr)
	require.Contains(t, r.stdout, "verifier key in the database: "+key+"\n")
	require.Contains(t, r.stdout, good.String()+": 30 events verified in ")
	require.Contains(t, r.stdout, bad.String()+": 30 events verified in ")

	d.exec(t, fmt.Sprintf(`update events set at = at + interval '1 second' where workspace_id = '%s' and seq in (7, 21)`, bad))
	r = runHere(t, d.environ, "verify")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stdout, good.String()+": 30 events verified in ")
	require.Contains(t, r.stdout, bad.String()+": BAD: record 7: the record was changed\n")
	require.Equal(t, "ERROR: some records are not as they were signed: 1 of 2 workspaces\n", r.stderr)

	d.exec(t, fmt.Sprintf(`update events set at = at - interval '1 second' where workspace_id = '%s' and seq in (7, 21)`, bad))
	d.exec(t, fmt.Sprintf(`delete from proof_checkpoints where workspace_id = '%s'`, bad))
	d.exec(t, fmt.Sprintf(`delete from proof_hashes where workspace_id = '%s'`, bad))
	d.exec(t, fmt.Sprintf(`delete from checkpoints where workspace_id = '%s'`, bad))
	r = runHere(t, d.environ, "verify")
	require.Equal(t, 1, r.status, "nothing is signed any more")
	require.Contains(t, r.stdout, bad.String()+": BAD: record 1: records 1 to 30 were not signed in time\n")

	r = runHere(t, d.environ, "verify", "-workspace="+strings.ToUpper(good.String()), "-verifier-key="+key)
	require.Zero(t, r.status, r.stderr)
	require.NotContains(t, r.stdout, bad.String())
	r = runHere(t, d.environ, "verify", "-workspace="+bad.String())
	require.Equal(t, 1, r.status)

	var kept string
	require.NoError(t, d.conn.QueryRow(t.Context(), `select note from proof_checkpoints where workspace_id = $1`, good).Scan(&kept))
	for _, text := range []string{kept, strings.TrimSuffix(kept, "\n")} { // $(…) of a shell drops the last newline
		r = runHere(t, d.environ, "verify", "-workspace="+good.String(), "-checkpoint="+text)
		require.Zero(t, r.status, r.stdout)
	}

	nobody := events.NewID(time.Now())
	r = runHere(t, d.environ, "verify", "-workspace="+nobody.String())
	require.Equal(t, 1, r.status)
	require.Equal(t, "ERROR: some records are not as they were signed: "+nobody.String()+": it has neither a log nor a checkpoint\n", r.stderr)

	other := "svc.example.com+" + strings.Split(key, "+")[1] + "+AAAA"
	r = runHere(t, d.environ, "verify", "-verifier-key="+other)
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, "the verifier key is malformed")
}

func TestVerifyRejectsWrongArguments(t *testing.T) {
	for want, args := range map[string][]string{
		"-workspace must be the id of a workspace":             {"verify", "-workspace=" + marker},
		"-workspace goes with rebuild, retry, skip and verify": {"info", "-workspace=" + events.NewID(time.Now()).String()},
		"-verifier-key goes with verify and replace-key":       {"-verifier-key=k"},
		"verify takes no arguments":                            {"verify", "acme"},
		"-seq must be a number":                                {"skip", "runs", "-seq=" + marker},
		"-seq goes with skip":                                  {"retry", "-seq=7"},
		"-resume goes with rebuild, and not with -workspace":   {"rebuild", "-resume", "-workspace=" + events.NewID(time.Now()).String()},
		"views takes no arguments":                             {"views", "runs"},
		"skip needs one view, -workspace and -seq":             {"skip"},
		"-views goes with verify of a database":                {"rebuild", "-views"},
		"-checkpoint goes with verify of one -workspace":       {"verify", "-checkpoint=c"},
		"-export and -kept go with each other and verify":      {"verify", "-export=e"},
		" go with each other and verify, and":                  {"verify", "-kept=e"},
		"with each other and verify, and not with -workspace":  {"info", "-kept=k", "-export=e"},
	} {
		r := runHere(t, nil, args...)
		require.Equal(t, 2, r.status, want)
		require.Contains(t, r.stderr, strings.TrimSpace(want))
	}
}

// createSignedLogs creates logs of 30 events and signs them. It returns the verifier key.
func (d *database) createSignedLogs(t *testing.T, workspaces ...events.ID) string {
	db, err := pgxpool.New(t.Context(), d.cfg.ConnString())
	require.NoError(t, err)
	defer db.Close()
	log := store.New(db, nil, func(events.ID, int64) {})
	defer log.Close()
	ring := ringOf(t, "k")
	log.Authenticate(ring)
	for _, workspace := range workspaces {
		w := events.Write{Stream: workspace}
		for range 30 {
			w.Events = append(w.Events, events.WorkspaceRenamed{Name: "Acme", Slug: "acme"})
		}
		_, err := log.Append(t.Context(), &events.Commit{Workspace: workspace, At: time.Now(), Writes: []events.Write{w}})
		require.NoError(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		proof.New(db, ring, "svc.example.com", func(string) bool { return true }, slog.New(slog.DiscardHandler)).Run(ctx)
	}()
	require.Eventually(t, func() bool {
		var n int
		err := db.QueryRow(t.Context(), `select count(*) from proof_checkpoints where size = 30`).Scan(&n)
		return err == nil && n == len(workspaces)
	}, limit, 10*time.Millisecond)
	stop()
	<-done
	key, err := proof.PublicKey(t.Context(), db)
	require.NoError(t, err)
	return key
}
