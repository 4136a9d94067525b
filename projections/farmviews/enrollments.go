package farmviews

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
	"svc/projections/query"
)

// Enrollments is the view of the tokens by which machines enroll as runners. It is inline.
type Enrollments struct{ DB *pgxpool.Pool }

type enrollmentRow struct {
	Workspace       events.ID  `db:"workspace_id"`
	ID              events.ID  `db:"enrollment_id"`
	Name            string     `db:"name"`
	Status          string     `db:"status"`
	Labels          []string   `db:"labels"`
	ExclusiveLabels []string   `db:"exclusive_labels"`
	CapacityLimit   int        `db:"capacity_limit"`
	Jobs            int        `db:"jobs"`
	Tail            string     `db:"tail"`
	Runner          *events.ID `db:"runner_id"`
	Refusals        int        `db:"refusals"`
	MintedBy        string     `db:"minted_by"`
	MintedAt        time.Time  `db:"minted_at"`
	ExpiresAt       time.Time  `db:"expires_at"`
	UsedAt          *time.Time `db:"used_at"`
	Uses            int        `db:"uses"`
	Used            int        `db:"used"`
}

// The status of an enrollment. Rows never have status expired: queries derive it from the clock.
const (
	EnrollmentPending   = "pending"
	EnrollmentUsed      = "used"
	EnrollmentWithdrawn = "withdrawn"
	EnrollmentExpired   = "expired"
)

var enrollments = &fold.Table[events.ID, enrollmentRow]{
	View: "enrollments", Updated: fold.Inline, Key: "enrollment_id",
	Kinds: []string{"enrollment"},
	Keys: func(r events.Record) []events.ID {
		switch r.Event.(type) {
		case events.EnrollmentMinted, events.EnrollmentUsed, events.EnrollmentRefused, events.EnrollmentWithdrawn:
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(id events.ID, n *enrollmentRow, r events.Record) *enrollmentRow {
		if e, ok := r.Event.(events.EnrollmentMinted); ok {
			return &enrollmentRow{
				Workspace: r.Workspace, ID: id, Name: e.Name, Status: EnrollmentPending,
				Labels: e.Labels, ExclusiveLabels: e.ExclusiveLabels, CapacityLimit: e.CapacityLimit, Jobs: e.Jobs,
				Tail: e.Tail, MintedBy: r.Actor.Name, MintedAt: r.At, ExpiresAt: e.ExpiresAt, Uses: e.Machines(),
			}
		}
		after := *n
		switch e := r.Event.(type) {
		case events.EnrollmentUsed:
			after.Used++
			after.Runner, after.UsedAt = &e.Runner, &r.At
			if after.Used >= n.Uses {
				after.Status = EnrollmentUsed
			}
			if n.Uses == 1 {
				after.Name = e.Name
			}
		case events.EnrollmentRefused:
			after.Refusals++
		case events.EnrollmentWithdrawn:
			after.Status = EnrollmentWithdrawn
		}
		return &after
	},
}

// An Enrollment is an enrollment token, without its secret.
type Enrollment struct {
	ID              events.ID
	Name            string // of the runner, or "" if there can be several or it has none yet
	Status          string // pending, used, withdrawn, expired
	Labels          []string
	ExclusiveLabels []string
	CapacityLimit   int
	Jobs            int
	Tail            string
	Runner          *events.ID // the last one
	RunnerState     *events.RunnerState
	Refusals        int // recorded attempts of other machines to use the token
	MintedBy        string
	MintedAt        time.Time
	ExpiresAt       time.Time
	UsedAt          *time.Time // when the last runner enrolled
	Uses            int        // number of machines that it is for
	Used            int        // number of machines that have become runners
}

const selectEnrollments = `
	select n.enrollment_id, n.name, case when n.status = 'pending' and n.expires_at <= $2 then 'expired' else n.status end,
		n.labels, n.exclusive_labels, n.capacity_limit, n.jobs, n.tail, n.runner_id, r.state, n.refusals,
		n.minted_by, n.minted_at, n.expires_at, n.used_at, n.uses, n.used
	from enrollments n left join lateral (
		select state from runners where workspace_id = $1 and runner_id = n.runner_id offset 0) r on true
	where n.workspace_id = $1 `

// Page returns the enrollments of a workspace with their status at a time, newest first, and the
// number on all pages.
func (v Enrollments) Page(
	ctx context.Context, workspace events.ID, at time.Time, limit, offset int,
) (list []Enrollment, total int, err error) {
	rows, _ := v.DB.Query(ctx, selectEnrollments+`order by n.enrollment_id desc limit $3 offset $4`, workspace, at, limit, offset)
	list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Enrollment])
	if err != nil {
		return nil, 0, fmt.Errorf("read enrollments of %s: %w", workspace, err)
	}
	err = v.DB.QueryRow(ctx, `
		select coalesce((select enrollments from enrollment_counts where workspace_id = $1), 0)`, workspace).Scan(&total)
	return list, total, fault.Wrap(err, "count enrollments of %s", workspace)
}

// Pending is like Page, for enrollments whose token can still be used at that time, the last to
// expire first.
func (v Enrollments) Pending(
	ctx context.Context, workspace events.ID, at time.Time, limit, offset int,
) (list []Enrollment, total int, err error) {
	rows, _ := v.DB.Query(ctx, selectEnrollments+`and n.status = 'pending' and n.expires_at > $2
		order by n.expires_at desc, n.enrollment_id desc limit $3 offset $4`, workspace, at, limit, offset)
	list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Enrollment])
	if err != nil {
		return nil, 0, fmt.Errorf("read pending enrollments of %s: %w", workspace, err)
	}
	err = v.DB.QueryRow(ctx, `
		select count(*) from enrollments where workspace_id = $1 and status = 'pending' and expires_at > $2`, workspace, at).Scan(&total)
	return list, total, fault.Wrap(err, "count pending enrollments of %s", workspace)
}

// Get returns one enrollment of a workspace with its status at a time. ok is false if there is none.
func (v Enrollments) Get(ctx context.Context, workspace, id events.ID, at time.Time) (n Enrollment, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, selectEnrollments+`and n.enrollment_id = $3`, workspace, at, id)
	return query.Optional[Enrollment](rows, "enrollment "+id.String())
}
