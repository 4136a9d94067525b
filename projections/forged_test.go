package projections_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/lookup"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/world"
)

// A time without bounds in a row that is not part of a view, where only somebody else can have written it, makes
// no query fail: neither those of its workspace nor those that look up rows of several workspaces at once.
func TestTimesWithoutBoundsAreRead(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	var refs []projections.Ref
	for range 2 {
		p, err := w.NewPlayer(t.Context(), 1)
		require.NoError(t, err)
		r := projections.Ref{Workspace: p.Workspace}
		require.NoError(t, w.DB.QueryRow(t.Context(), `select member_id from members where workspace_id = $1`, r.Workspace).Scan(&r.ID))
		refs = append(refs, r)
	}
	change := func(sql string) {
		t.Helper()
		tag, err := w.DB.Exec(t.Context(), sql, refs[0].Workspace)
		require.NoError(t, err)
		require.Positive(t, tag.RowsAffected())
	}
	change(`insert into member_activity select workspace_id, user_id, 'infinity' from members where workspace_id = $1`)
	members, err := projections.Members{DB: w.DB}.ByIDs(t.Context(), refs)
	require.NoError(t, err)
	require.Len(t, members, 2)

	account, runner := world.NewID(), world.NewID()
	_, err = w.DB.Exec(t.Context(), `insert into service_accounts
		select (jsonb_populate_record(null::service_accounts, jsonb_build_object('workspace_id', $1::uuid, 'account_id', $2::uuid, 'name', 'bot',
			'created_at', now(), 'scopes', '{}'::text[], 'created_by', '', 'tail', '', 'status', 'active'))).*`, refs[0].Workspace, account)
	require.NoError(t, err)
	change(`insert into service_account_usage select workspace_id, account_id, '-infinity' from service_accounts where workspace_id = $1`)
	accounts, _, err := projections.ServiceAccounts{DB: w.DB}.Page(t.Context(), refs[0].Workspace, 10, 0)
	require.NoError(t, err)
	require.Len(t, accounts, 1)

	_, err = w.DB.Exec(t.Context(), `insert into runner_presence
		(workspace_id, runner_id, connection_id, online, connected_at, seen_at, free, load, disk_free, memory, usage, rests_until)
		values ($1, $2, $2, true, 'infinity', '-infinity', 0, 0, 0, 0, '[]', 'infinity')`, refs[0].Workspace, runner)
	require.NoError(t, err)
	seen, err := projections.Runners{DB: w.DB}.Presences(t.Context(), refs[0].Workspace, []events.ID{runner})
	require.NoError(t, err)
	require.Len(t, seen, 1)
}

// Numbers that no log reaches make no query fail that reads positions of several workspaces at once.
func TestPositionsWithForgedNumbersAreRead(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	forged, beyond, other := world.NewID(), world.NewID(), world.NewID()
	_, err := w.DB.Exec(t.Context(), `
		insert into logs
		select id, case id when $2 then 9223372036854775807 else 5 end, case id when $2 then 'infinity' else to_timestamp(7.5) end
		from unnest($1::uuid[]) id`, []events.ID{forged, beyond, other}, beyond)
	require.NoError(t, err)
	_, err = w.DB.Exec(t.Context(), `insert into checkpoints select id, view, case id when $3 then 7 when $4 then -9223372036854775808
		else 9223372036854775807 end from unnest($1::uuid[]) id, unnest($2::text[]) view`,
		[]events.ID{forged, beyond, other}, []string{"runs", "audit"}, other, forged)
	require.NoError(t, err)
	found, err := projections.Dashboard{DB: w.DB}.Positions(t.Context(), []events.ID{forged, beyond, other})
	require.NoError(t, err)
	require.Len(t, found, 3)
	require.Equal(t, "19 at 7.500000", found[other])
}

// A number in a made-up event makes the process that compares it with views allocate nothing.
func TestForgedStepAllocatesNothing(t *testing.T) { // not parallel: it measures what is allocated
	w := world.NewSilent(t)
	allocated := func(step int64) uint64 {
		workspace, job := world.NewID(), world.NewID()
		_, err := w.DB.Exec(t.Context(), `insert into logs values ($1, 3, now())`, workspace)
		require.NoError(t, err)
		for i, e := range [][2]string{
			{"job.submitted", "{}"}, {"job.leased", `{"epoch":1}`}, {"job.step_started", fmt.Sprintf(`{"epoch":1,"step":%d}`, step)},
		} {
			_, err := w.DB.Exec(t.Context(), `insert into events (workspace_id, seq, id, stream, version, kind, schema, at, meta, data)
				values ($1, $2::int, $3, $4, $2::int, $5, 1, now(), '{}', $6)`, workspace, i+1, world.NewID(), job, e[0], e[1])
			require.NoError(t, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = fold.Compare(t.Context(), w.DB, projections.All(), workspace, fold.NoPause)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		return after.TotalAlloc - before.TotalAlloc
	}
	allocated(1) // plans and pools
	require.Less(t, allocated(4_000_000), 2*allocated(2)+1<<20)
}

// A row that cannot be decoded fails its own look-up, and no other one that shares the query.
func TestUndecodableRowFailsNoOtherToken(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	var prints []events.Fingerprint
	for i := range 3 {
		p, err := w.NewPlayer(t.Context(), uint64(i+1))
		require.NoError(t, err)
		token := commands.NewServiceToken()
		_, err = w.Commands.CreateServiceAccount(t.Context(), commands.CreateServiceAccount{
			Meta: world.Meta(p.Workspace, p.Owner), Account: world.NewID(), Token: token, Name: "bot", Scopes: []events.Scope{events.ReadAPI},
		})
		require.NoError(t, err)
		prints = append(prints, token.Fingerprint())
	}
	_, err := w.DB.Exec(t.Context(), `update service_tokens set scopes = '{null}' where fingerprint = $1`, prints[1])
	require.NoError(t, err)
	found, err := projections.ServiceAccounts{DB: w.DB}.Tokens(t.Context(), prints)
	require.Len(t, found, 2)
	require.Equal(t, prints[2], found[prints[2]].Fingerprint)
	require.NoError(t, lookup.ErrorOf(err, prints[0]))
	require.ErrorContains(t, lookup.ErrorOf(err, prints[1]), "scopes")
	require.NoError(t, lookup.ErrorOf(err, prints[2]))
}

// Rows of the audit index that nobody of this service wrote end a search with an error, and do not make it go on and on.
func TestForgedPostingsEndASearch(t *testing.T) {
	t.Parallel()
	w := world.NewSilent(t)
	const segment2 = `'\x01'::bytea || substr(sha256('amember.joined'), 1, 8) || '\x00000002'::bytea`
	for name, entries := range map[string]string{
		"longer keys":  segment2 + ` || decode(lpad(to_hex(i), 8, '0') || '00000000', 'hex') from generate_series(1, 100) i`,
		"a longer key": segment2 + ` || '\x00000003'`,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := w.NewPlayer(t.Context(), uint64(len(name)))
			require.NoError(t, err)
			_, err = w.DB.Exec(t.Context(), `update logs set head = 1000000 where workspace_id = $1`, p.Workspace)
			require.NoError(t, err)
			_, err = w.DB.Exec(t.Context(), `insert into checkpoints values ($1, 'audit', 1000000)
				on conflict (workspace_id, view) do update set seq = excluded.seq`, p.Workspace)
			require.NoError(t, err)
			insert := `insert into audit (data, workspace_id, entry) select '', $1, `
			_, err = w.DB.Exec(t.Context(), insert+entries, p.Workspace)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			filter, audit := projections.AuditFilter{Action: "member.joined"}, projections.Audit{DB: w.DB}
			_, err = audit.RowsAfter(ctx, p.Workspace, filter, 0, 1_000_000, 10)
			require.ErrorContains(t, err, "a row of the audit index is damaged")
			_, err = audit.Page(ctx, projections.AuditQuery{Workspace: p.Workspace, AuditFilter: filter, Limit: 10})
			require.ErrorContains(t, err, "a row of the audit index is damaged")
		})
	}
}
