package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// A Runner is a build machine as people see it.
type Runner struct {
	ID              events.ID
	Name            string
	State           events.RunnerState
	Draining        bool
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
	ChangedAt       time.Time
	Jobs            []RunnerJob // that it has
	SeenAt          *time.Time  // its last heartbeat
	Declined        int         // jobs in a row
	DeclineReason   string
	RestsUntil      *time.Time // for that
}

// A RunnerJob is a job that a runner has.
type RunnerJob struct {
	ID        events.ID       `json:"id"`
	Name      string          `json:"name"`
	State     events.JobState `json:"state"`
	StartedAt *time.Time      `json:"startedAt"`
}

const selectRunners = `
	select r.runner_id, r.name, r.state, r.draining, r.note, r.noted_by, r.offline_reason, r.labels, r.exclusive_labels, r.capacity,
		r.jobs_left, r.agent_version, r.os, r.arch, r.sandboxes, coalesce(r.next_not_after, r.not_after), r.enrolled_at, r.changed_at,
		(select coalesce(json_agg(json_build_object(
				'id', j.job_id, 'name', j.name, 'state', j.state, 'startedAt', j.started_at) order by j.job_id), '[]')
			from jobs j where j.workspace_id = $1 and j.runner_id = r.runner_id and j.state in ('leased', 'running', 'cancelling')),
		p.seen_at, coalesce(p.declined, 0), coalesce(p.decline_reason, ''), p.rests_until
	from runners r left join lateral (
		select p.seen_at, p.declined, p.decline_reason, p.rests_until from runner_presence p
		where p.workspace_id = $1 and p.runner_id = r.runner_id offset 0) p on true
	where r.workspace_id = $1 `

// over are the states of runners that take no job any more.
const over = `('suspended', 'revoked', 'retired')`

// A RunnerStatus is what a list of runners is narrowed to; "" is to nothing.
type RunnerStatus string

// These are the statuses: those that are connected, also those that are being drained; those
// that are not and may be again; those that are over.
const (
	RunnersOnline  RunnerStatus = "online"
	RunnersOffline RunnerStatus = "offline"
	RunnersEnded   RunnerStatus = "ended"
)

const (
	connected    = `state in ('online', 'draining')`
	away         = `state in ('enrolled', 'offline')`
	countRunners = `(select count(*) from runners where workspace_id = $1 and `
	everEnrolled = `coalesce((select runners from runner_counts where workspace_id = $1), 0)`
)

// ofStatus has the condition of each status, and the statement that counts its runners. All that
// there ever were and those that are over are not counted anew by each request: machines that do
// one job come and go.
var ofStatus = map[RunnerStatus]struct{ where, count string }{
	"":             {``, `select ` + everEnrolled},
	RunnersOnline:  {`and r.` + connected, `select ` + countRunners + connected + `)`},
	RunnersOffline: {`and r.` + away, `select ` + countRunners + away + `)`},
	RunnersEnded:   {`and (r.state in ` + over + `) is true`, `select ` + everEnrolled + ` - ` + countRunners + connected + `) - ` + countRunners + away + `)`},
}

// Page returns the runners of a workspace with a status, those that are over last, by name,
// and how many there are on all pages.
func (v Runners) Page(ctx context.Context, workspace events.ID, status RunnerStatus, limit, offset int) (list []Runner, total int, err error) {
	of := ofStatus[status]
	rows, _ := v.DB.Query(ctx, selectRunners+of.where+` order by r.state in `+over+`, r.name, r.runner_id limit $2 offset $3`, workspace, limit, offset)
	list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Runner])
	if err != nil {
		return nil, 0, fmt.Errorf("runners of %s: %w", workspace, err)
	}
	if err := v.DB.QueryRow(ctx, of.count, workspace).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count runners of %s: %w", workspace, err)
	}
	return list, total, nil
}

// Called returns up to limit runners with a text in their name, among the first 1,000 in
// the order of [Runners.Page].
func (v Runners) Called(ctx context.Context, workspace events.ID, text string, limit int) ([]Named, error) {
	rows, _ := v.DB.Query(ctx, `
		select runner_id, name, state from (
			select runner_id, name, state from runners where workspace_id = $1 order by state in `+over+`, name, runner_id limit 1000) r
		where strpos(lower(name), lower($2)) > 0 order by state in `+over+`, name, runner_id limit $3`, workspace, text, limit)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Named])
	if err != nil {
		return nil, fmt.Errorf("search runners of %s: %w", workspace, err)
	}
	return list, nil
}

// Get returns one runner of a workspace. ok is false if there is none.
func (v Runners) Get(ctx context.Context, workspace, id events.ID) (r Runner, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, selectRunners+`and r.runner_id = $2`, workspace, id)
	return optional[Runner](rows, "runner "+id.String())
}

// RunnerSlots is what the runners of a workspace that are connected can do at once.
type RunnerSlots struct {
	Online, Draining, Offline int // runners
	Total, Busy               int // jobs
}

const selectSlots = `
	select count(*) filter (where state = 'online'), count(*) filter (where state = 'draining'), ` + countRunners + away + `),
		coalesce(sum(capacity) filter (where state = 'online'), 0), coalesce((select held from job_counts where workspace_id = $1), 0)
	from runners where workspace_id = $1 and ` + connected

// into returns where a row of selectSlots goes.
func (s *RunnerSlots) into() []any {
	return []any{&s.Online, &s.Draining, &s.Offline, &s.Total, &s.Busy}
}

// Slots counts them.
func (v Runners) Slots(ctx context.Context, workspace events.ID) (s RunnerSlots, err error) {
	if err := v.DB.QueryRow(ctx, selectSlots, workspace).Scan(s.into()...); err != nil {
		return s, fmt.Errorf("count slots of %s: %w", workspace, err)
	}
	return s, nil
}

// A Holder is what has to be known of who shows a certificate: the authorities that may
// have signed it, and the runner that it names, which may not exist.
type Holder struct {
	Authorities  []string // certificates in PEM
	Name         *string
	State        *events.RunnerState
	Serial       *string
	NextSerial   *string
	Version      *string
	Enrolled     *time.Time
	CertifiedFor *time.Time // until when the certificates of the runner last
}

// Holder looks a runner up together with the authorities of its workspace that are not
// retired.
func (v Runners) Holder(ctx context.Context, workspace, runner events.ID) (h Holder, err error) {
	rows, _ := v.DB.Query(ctx, `
		select coalesce((select array_agg(a.certificate order by a.authority_id)
				from authorities a where a.workspace_id = $1 and not a.retired), '{}'),
			r.name, r.state, r.serial, r.next_serial, r.agent_version, r.enrolled_at, coalesce(r.next_not_after, r.not_after)
		from (values (1)) x left join runners r on r.workspace_id = $1 and r.runner_id = $2`, workspace, runner)
	h, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Holder])
	if err != nil {
		return h, fmt.Errorf("look up runner %s: %w", runner, err)
	}
	return h, nil
}
