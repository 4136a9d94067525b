package plans_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/farm/certificate"
	"svc/projections/farmviews"
	"svc/projections/query"
)

// runnerRows are 20,000 runners of acme, of which 1,000 are connected, 1,000 away and the others over, as many used
// enrollments, and 20,000 unused ones, of which 1,000 have not expired, among those of others.
const runnerRows = `
	insert into runners (workspace_id, runner_id, name, state, draining, note, noted_by, offline_reason, labels, exclusive_labels, capacity,
		jobs_left,
		agent_version, os, arch, sandboxes, serial, not_after, next_serial, next_not_after, enrollment_id, enrolled_at, changed_at)
	select w, id('y', n), 'builder-' || n, case when n < 1000 then 'online'
		when n < 2000 then 'offline' else 'retired' end, false, '', '', '', '{os=linux}', '{}', 4, null,
		'0.4.0', 'linux', 'amd64', '{none}', 's' || n, '2036-01-01', '', null, id('z', n), '2026-01-01', '2026-01-01'
	from (select $acme as w, n from generate_series(0, 19999) n union all select id('w', n), n from generate_series(1, $others) n) t;
	insert into enrollments (workspace_id, enrollment_id, name, status, labels, exclusive_labels, capacity_limit, jobs, tail, runner_id,
		refusals,
		minted_by, minted_at, expires_at, used_at)
	select workspace_id, enrollment_id, name, 'used', '{}', '{}', 4, 0, 'tail', runner_id, 0, 'p1', '2026-01-01', '2026-01-01', '2026-01-01'
		from runners;
	insert into enrollments (workspace_id, enrollment_id, name, status, labels, exclusive_labels, capacity_limit, jobs, tail, refusals,
		minted_by, minted_at, expires_at)
	select $acme, id('q', n), '', 'pending', '{}', '{}', 4, 0, 'tail', 0, 'p1', '2026-01-01',
		case when n < 1000 then timestamptz '2036-01-01' else '2026-01-01' end from generate_series(0, 19999) n;
	insert into runner_counts (workspace_id, runners) select workspace_id, count(*) from runners group by 1;
	insert into enrollment_counts (workspace_id, enrollments) select workspace_id, count(*) from enrollments group by 1;
	insert into runner_presence (workspace_id, runner_id, connection_id, online, connected_at, seen_at, free, load, disk_free, memory, usage)
	select workspace_id, runner_id, runner_id, state = 'online', '2026-01-01', '2036-01-01', 2, 0, 0, 0, '[]' from runners
		where state = 'online';
	insert into authorities (workspace_id, authority_id, certificate, not_after, retired)
	select id('w', n), id('x', n), 'PEM', '2036-01-01', false from generate_series(1, $others) n;
	insert into farm_secrets (workspace_id, name, value_id, set_by, set_at)
	select id('w', n), 'NPM_TOKEN', id('v', n), 'p1', '2026-01-01' from generate_series(1, $others) n`

// commandRunners enrols a machine, and takes it through what can become of a runner.
func (p *process) commandRunners(t *testing.T, owner commands.Meta) {
	t.Helper()
	ctx, h, ok := t.Context(), p.commands, done[commands.Result](t)
	authority := events.AuthorityCreated{Authority: idOf(t, 'x', 7), Certificate: "PEM", NotAfter: epoch.AddDate(10, 0, 0)}
	mint := commands.MintEnrollment{
		Meta: owner, Enrollment: newID(), Token: bearer.NewEnrollmentToken(), Authority: authority, CapacityLimit: 4, Lasts: time.Hour,
	}
	ok(h.MintEnrollment(ctx, mint))
	agent := events.Agent{Version: "0.4.0", OS: "linux", Arch: "amd64"}
	hello := farm.Hello{Capacity: 2, Agent: agent}
	r, err := h.RegisterRunner(ctx, commands.RegisterRunner{
		Token: mint.Token, Authority: authority, Runner: newID(), Machine: farm.Machine{Name: "builder", Hello: hello},
		Certificate: certificate.NewLeaf(authority.Authority, events.KeyHash{}, epoch.AddDate(0, 0, -3)), // old enough to be renewed
	})
	require.NoError(t, err)
	itself := commands.Meta{Workspace: p.acme,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.ByRunner, ID: r.Runner, Name: r.Name}, Origin: events.FromFarm}}
	next := certificate.NewLeaf(authority.Authority, events.KeyHash{1}, epoch)
	_, _, err = h.RenewCertificate(ctx, commands.RenewCertificate{
		Meta: itself, Runner: r.Runner, Authority: authority, Shown: r.Certificate.Serial, Certificate: next,
	})
	require.NoError(t, err)
	ok(h.ShowCertificate(ctx, commands.ShowCertificate{Meta: itself, Runner: r.Runner, Serial: next.Serial}))
	ok(h.ConnectRunner(ctx, commands.ConnectRunner{Meta: itself, Runner: r.Runner, Hello: hello}))
	ok(h.DrainRunner(ctx, commands.DrainRunner{Meta: owner, Runner: r.Runner}))
	ok(h.ResumeRunner(ctx, commands.ResumeRunner{Meta: owner, Runner: r.Runner}))
	ok(h.DisconnectRunner(ctx, commands.DisconnectRunner{Meta: itself, Runner: r.Runner, Reason: events.OfflineDisconnected}))
	scope := &events.SecretScope{Jobs: []string{"publish"}}
	_, _, err = h.SetFarmSecret(ctx, commands.SetFarmSecret{Meta: owner, Name: "NPM_TOKEN", Value: newID(), Scope: scope})
	require.NoError(t, err)
	_, _, err = h.RemoveFarmSecret(ctx, commands.RemoveFarmSecret{Meta: owner, Name: "NPM_TOKEN"})
	require.NoError(t, err)
	ok(h.RevokeRunner(ctx, commands.RevokeRunner{Meta: owner, Runner: r.Runner}))
	spare := mint
	spare.Enrollment, spare.Token = newID(), bearer.NewEnrollmentToken()
	ok(h.MintEnrollment(ctx, spare))
	ok(h.WithdrawEnrollment(ctx, commands.WithdrawEnrollment{Meta: owner, Enrollment: spare.Enrollment}))
}

func (p *process) askRunners(t *testing.T) {
	t.Helper()
	ctx, v := t.Context(), farmviews.Runners{DB: p.asks}
	for status, most := range map[farmviews.RunnerStatus]int{"": 20_000, farmviews.RunnersOnline: 1_000, farmviews.RunnersOffline: 1_000,
		farmviews.RunnersEnded: 18_000} {
		_, total, err := v.Page(ctx, p.acme, status, 25, 100)
		require.NoError(t, err)
		require.InDelta(t, most, total, 100, "%q", status)
	}
	_, ok, err := v.Get(ctx, p.acme, idOf(t, 'y', 7))
	require.True(t, ok, err)
	done[[]query.Named](t)(v.SearchByName(ctx, p.acme, "builder-7", 5, epoch))
	done[farmviews.RunnerSlots](t)(v.Slots(ctx, p.acme))
	holder := done[farmviews.Holder](t)(v.Holder(ctx, p.acme, idOf(t, 'y', 7)))
	require.NotNil(t, holder.State)
	enrollments := farmviews.Enrollments{DB: p.asks}
	_, total, err := enrollments.Page(ctx, p.acme, epoch, 25, 100)
	require.NoError(t, err)
	require.GreaterOrEqual(t, total, 20_000)
	_, total, err = enrollments.Pending(ctx, p.acme, epoch, 25, 100)
	require.NoError(t, err)
	require.Equal(t, 1000, total)
	_, ok, err = enrollments.Get(ctx, p.acme, idOf(t, 'z', 7), epoch)
	require.True(t, ok, err)
	done[[]farmviews.FarmSecret](t)(farmviews.FarmSecrets{DB: p.asks}.List(ctx, p.acme))
}
