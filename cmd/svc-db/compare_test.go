package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/proof"
)

// Changes of a view by SQL are reported and not repaired.
func TestVerifyReportsDifferingRows(t *testing.T) {
	d := newDatabase(t)
	require.Zero(t, runHere(t, d.environ, "migrate").status)
	db, err := pgxpool.New(t.Context(), d.cfg.ConnString())
	require.NoError(t, err)
	t.Cleanup(db.Close)
	good, bad := d.workspace(t, db, "good"), d.workspace(t, db, "bad")
	followed := catchUpAll(t, db)

	r := runHere(t, d.environ, "verify", "-views")
	require.Zero(t, r.status, r.stderr)
	for _, workspace := range []events.ID{good, bad} {
		require.Regexp(t, workspace.String()+`: \d+ rows match the log up to event 3, compared in `, r.stdout)
	}

	d.exec(t, `update members set role = 'Viewer' where workspace_id = '`+bad.String()+`'`)
	d.exec(t, `update service_tokens set fingerprint = sha256('mine') where workspace_id = '`+bad.String()+`'`)
	d.exec(t, `insert into global_keys values ('email/eve@evil.example', gen_random_uuid(), gen_random_uuid())`)
	r = runHere(t, d.environ, "verify", "-views")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stdout, good.String()+": ")
	require.NotContains(t, r.stdout, good.String()+": DIFFERENT")
	require.Regexp(t, bad.String()+`: DIFFERENT: members [0-9a-f-]{36}: stored is role "Viewer", the log says role "Owner"\n`, r.stdout)
	require.Regexp(t, bad.String()+`: DIFFERENT: service_tokens [0-9a-f]{16}…: is not in the log, stored is `, r.stdout)
	require.Regexp(t, bad.String()+`: DIFFERENT: service_tokens [0-9a-f]{16}…: is missing, the log says `, r.stdout)
	require.Regexp(t, `[0-9a-f-]{36}: DIFFERENT: global_keys "email/eve@evil.example": is not in the log`, r.stdout)
	require.Equal(t, "ERROR: some rows differ from the log: 2 of 3 workspaces\n", r.stderr)

	require.Zero(t, runHere(t, d.environ, "verify").status, "the log itself is as it was signed")
	require.Equal(t, 1, runHere(t, d.environ, "verify", "-views", "-workspace="+bad.String()).status)
	require.Zero(t, runHere(t, d.environ, "verify", "-views", "-workspace="+good.String()).status)

	// The followed views lose their positions, and rows, of which they have none here.
	d.exec(t, `delete from checkpoints where workspace_id = '`+good.String()+`' and view <> 'proof'`)
	r = runHere(t, d.environ, "verify", "-views", "-workspace="+good.String())
	require.Equal(t, 1, r.status, r.stdout)
	for _, view := range followed {
		require.Contains(t, r.stdout, good.String()+": BEHIND: "+view+" has processed 0 of 3 events\n")
	}
	require.NotContains(t, r.stdout, "BEHIND: members")
	require.Equal(t, "ERROR: some views are behind the log: 1 of 1 workspaces\n", r.stderr)
	catchUpAll(t, db)
	require.Zero(t, runHere(t, d.environ, "verify", "-views", "-workspace="+good.String()).status)

	r = runHere(t, d.environ, "rebuild")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stdout, bad.String()+": DIFFERENT: members ")
	require.Equal(t, "ERROR: rebuilt, but rows differed from the log: members, service_tokens, global_keys\n", r.stderr)
	r = runHere(t, d.environ, "rebuild")
	require.Zero(t, r.status, r.stderr)
	r = runHere(t, d.environ, "verify", "-views")
	require.Zero(t, r.status, r.stdout)
}

// catchUpAll runs all followed views until they have caught up, and returns their names.
func catchUpAll(t *testing.T, db *pgxpool.Pool) (names []string) {
	t.Helper()
	for _, v := range projections.Followed() {
		names = append(names, v.Name())
	}
	catchUp(t, db, names...)
	return names
}

// workspace creates a workspace with an owner and a token, and signs its log.
func (d *database) workspace(t *testing.T, db *pgxpool.Pool, slug string) events.ID {
	t.Helper()
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	ring := ringOf(t, "k")
	log.Authenticate(ring)
	h, id, owner := commands.New(log, time.Now), events.NewID(time.Now()), events.NewID(time.Now())
	meta := commands.Meta{Workspace: id, Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: owner,
		Name: "ann@acme.example"}, Origin: events.FromCLI}}
	_, err := h.CreateWorkspace(t.Context(), commands.CreateWorkspace{Meta: meta, Member: events.NewID(time.Now()),
		Email: "ann@acme.example", Name: "Acme", Slug: slug})
	require.NoError(t, err)
	_, err = h.CreateServiceAccount(t.Context(), commands.CreateServiceAccount{
		Meta: meta, Account: events.NewID(time.Now()), Token: bearer.NewServiceToken(), Name: "bot", Scopes: []events.Scope{events.ReadAPI},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	proof.New(db, ring, "svc.example.com", func(string) bool { return true }, slog.New(slog.DiscardHandler)).Run(ctx) // signs the rest
	return id
}
