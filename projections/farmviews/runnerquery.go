package farmviews

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
	"svc/input"
	"svc/projections/query"
)

// A Runner is a build machine as people see it.
type Runner struct {
	ID              events.ID
	Name            string
	State           events.RunnerState
	Draining        bool
	DrainsItself    bool // if it is draining: nobody but its machine asked for it
	Note            string
	NotedBy         string
	OfflineReason   events.OfflineReason
	Labels          []string
	ExclusiveLabels []string
	Capacity        int
	JobsLeft        *int
	Version         string
	OS              string
	Arch            string
	Sandboxes       []string
	NotAfter        time.Time
	EnrolledAt      time.Time
	Enrollment      events.ID // by which it became a runner
	ChangedAt       time.Time
	Jobs            []RunnerJob // that it holds
	SeenAt          *time.Time  // last heartbeat
	Declined        int         // number of jobs declined in a row
	DeclineReason   string
	RestsUntil      *time.Time // because of declined jobs
}

// connectLimit is how long an agent may take to connect after its enrollment. An agent that shows no
// certificate is refused without an event, because its connection does not name a runner.
const connectLimit = 30 * time.Second

// At returns the runner with its state at a time: offline if it should have connected by then. Why it
// is offline becomes that its certificate has expired, unless it was drained: it is refused whenever it
// connects.
func (r Runner) At(now time.Time) Runner {
	if state := RunnerStateAt(r.State, r.EnrolledAt, now); state != r.State {
		r.State, r.OfflineReason, r.ChangedAt = state, events.OfflineWithoutCertificate, r.EnrolledAt.Add(connectLimit)
	}
	if r.State == events.RunnerStateOffline && r.OfflineReason != events.OfflineDrained && now.After(r.NotAfter) {
		r.OfflineReason = events.OfflineBadCertificate
	}
	return r
}

// RunnerStateAt returns the state of [Runner.At] for a runner with a stored state.
func RunnerStateAt(state events.RunnerState, enrolled, now time.Time) events.RunnerState {
	if state == events.RunnerStateEnrolled && now.Sub(enrolled) >= connectLimit {
		return events.RunnerStateOffline
	}
	return state
}

// A RunnerJob is a job that a runner holds.
type RunnerJob struct {
	ID        events.ID       `json:"id"`
	Name      string          `json:"name"`
	State     events.JobState `json:"state"`
	StartedAt *time.Time      `json:"startedAt"`
}

const selectRunners = `
	select r.runner_id, r.name, case when r.state = 'online' and p.draining then 'draining' else r.state end,
		r.draining or r.state = 'online' and coalesce(p.draining, false), not r.draining, r.note,
		r.noted_by, r.offline_reason, r.labels, r.exclusive_labels, r.capacity,
		r.jobs_left, r.agent_version, r.os, r.arch, r.sandboxes, coalesce(r.next_not_after, r.not_after), r.enrolled_at,
		r.enrollment_id, r.changed_at,
		(select coalesce(json_agg(json_build_object(
				'id', j.job_id, 'name', j.name, 'state', j.state, 'startedAt', j.started_at) order by j.job_id), '[]')
			from jobs j where j.workspace_id = $1 and j.runner_id = r.runner_id and j.state in ('leased', 'running', 'cancelling')),
		p.seen_at, coalesce(p.declined, 0), coalesce(p.decline_reason, ''), p.rests_until
	from runners r left join lateral (
		select p.seen_at, p.declined, p.decline_reason, p.rests_until, p.draining from runner_presence p
		where p.workspace_id = $1 and p.runner_id = r.runner_id offset 0) p on true
	where r.workspace_id = $1 `

// endedStates lists the final states of runners.
const endedStates = `('suspended', 'revoked', 'retired')`

// A RunnerStatus selects runners; "" selects all.
type RunnerStatus string

// The statuses. Online runners are connected and may be draining; offline ones may connect again;
// ended ones may not.
const (
	RunnersOnline  RunnerStatus = "online"
	RunnersOffline RunnerStatus = "offline"
	RunnersEnded   RunnerStatus = "ended"
)

const (
	connectedStates = `state in ('online', 'draining')`
	offlineStates   = `state in ('enrolled', 'offline')`
	countRunners    = `(select count(*) from runners where workspace_id = $1 and `
	countEnrolled   = `coalesce((select runners from runner_counts where workspace_id = $1), 0)`
)

// statusQueries has the condition of each status and the statement that counts its runners. The numbers
// of all runners and of ended ones are derived from counts, because they grow without bound:
// one-job machines come and go.
var statusQueries = map[RunnerStatus]struct{ where, count string }{
	"":             {``, `select ` + countEnrolled},
	RunnersOnline:  {`and r.` + connectedStates, `select ` + countRunners + connectedStates + `)`},
	RunnersOffline: {`and r.` + offlineStates, `select ` + countRunners + offlineStates + `)`},
	RunnersEnded: {`and (r.state in ` + endedStates + `) is true`,
		`select ` + countEnrolled + ` - ` + countRunners + connectedStates + `) - ` + countRunners + offlineStates + `)`},
}

// Page returns the runners of a workspace with a status, ended ones last, by name, and the number
// on all pages.
func (v Runners) Page(
	ctx context.Context, workspace events.ID, status RunnerStatus, limit, offset int,
) (list []Runner, total int, err error) {
	of := statusQueries[status]
	rows, _ := v.DB.Query(ctx, selectRunners+of.where+` order by r.state in `+endedStates+`, r.name, r.runner_id limit $2 offset $3`,
		workspace, limit, offset)
	list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Runner])
	if err != nil {
		return nil, 0, fmt.Errorf("read runners of %s: %w", workspace, err)
	}
	err = v.DB.QueryRow(ctx, of.count, workspace).Scan(&total)
	return list, total, fault.Wrap(err, "count runners of %s", workspace)
}

// SearchByName returns up to limit runners with a text in their name, with their states at a time. It
// searches the first 1,000 in the order of [Runners.Page].
func (v Runners) SearchByName(ctx context.Context, workspace events.ID, text string, limit int, at time.Time) ([]query.Named, error) {
	rows, _ := v.DB.Query(ctx, `
		select runner_id, name, case when state = 'enrolled' and enrolled_at <= $2 then 'offline' else state end
		from runners where workspace_id = $1 order by state in `+endedStates+`, name, runner_id limit 1000`,
		workspace, at.Add(-connectLimit))
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[query.Named])
	if err != nil {
		return nil, fmt.Errorf("search runners of %s: %w", workspace, err)
	}
	part := input.SearchText(text)
	list = slices.DeleteFunc(list, func(n query.Named) bool { return !strings.Contains(input.SearchText(n.Name), part) })
	return query.PageOf(list, limit, 0), nil
}

// Get returns one runner of a workspace. ok is false if there is none.
func (v Runners) Get(ctx context.Context, workspace, id events.ID) (r Runner, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, selectRunners+`and r.runner_id = $2`, workspace, id)
	return query.Optional[Runner](rows, "runner "+id.String())
}

// RunnerSlots is the capacity of a workspace's connected runners.
type RunnerSlots struct {
	Online, Draining, Offline int // numbers of runners
	Total, Busy               int // numbers of jobs
}

const selectSlots = `
	select count(*) filter (where not draining), count(*) filter (where draining), ` + countRunners + offlineStates + `),
		coalesce(sum(capacity) filter (where not draining), 0), coalesce((select held from job_counts where workspace_id = $1), 0)
	from (select r.capacity, r.state = 'draining' or coalesce((select p.draining from runner_presence p
			where p.workspace_id = $1 and p.runner_id = r.runner_id), false) as draining
		from runners r where r.workspace_id = $1 and r.` + connectedStates + `) c`

// scanTargets returns the scan targets of a row of selectSlots.
func (s *RunnerSlots) scanTargets() []any {
	return []any{&s.Online, &s.Draining, &s.Offline, &s.Total, &s.Busy}
}

// Slots returns the capacity of a workspace's runners.
func (v Runners) Slots(ctx context.Context, workspace events.ID) (s RunnerSlots, err error) {
	err = v.DB.QueryRow(ctx, selectSlots, workspace).Scan(s.scanTargets()...)
	return s, fault.Wrap(err, "count slots of %s", workspace)
}

// A Holder has the data for authenticating a runner's certificate: the authorities that may have
// signed it, and the runner that it names, whose fields are nil if it does not exist.
type Holder struct {
	Authorities  []string // PEM certificates
	Name         *string
	State        *events.RunnerState
	Serial       *string
	NextSerial   *string
	Version      *string
	Enrolled     *time.Time
	CertifiedFor *time.Time // end of the validity of the runner's certificates
	Deleted      bool       // the workspace was deleted
}

// Holder returns a runner together with the active authorities of its workspace.
func (v Runners) Holder(ctx context.Context, workspace, runner events.ID) (h Holder, err error) {
	rows, _ := v.DB.Query(ctx, `
		select coalesce((select array_agg(a.certificate order by a.authority_id)
				from authorities a where a.workspace_id = $1 and not a.retired), '{}'),
			r.name, r.state, r.serial, r.next_serial, r.agent_version, r.enrolled_at, coalesce(r.next_not_after, r.not_after),
			exists (select from deleted_workspaces d where d.workspace_id = $1)
		from (values (1)) x left join runners r on r.workspace_id = $1 and r.runner_id = $2`, workspace, runner)
	h, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Holder])
	return h, fault.Wrap(err, "look up runner %s", runner)
}
