package farmviews

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/projections/fold"
)

// Runners is the view of build machines. It is inline, so that the certificate of a revoked runner
// is refused once the command was answered.
type Runners struct{ DB *pgxpool.Pool }

type runnerRow struct {
	Workspace       events.ID            `db:"workspace_id"`
	ID              events.ID            `db:"runner_id"`
	Name            string               `db:"name"`
	State           events.RunnerState   `db:"state"`
	Draining        bool                 `db:"draining"`
	Note            string               `db:"note"`
	NotedBy         string               `db:"noted_by"`
	OfflineReason   events.OfflineReason `db:"offline_reason"`
	Labels          []string             `db:"labels"`
	MintedLabels    []string             `db:"minted_labels"`
	ExclusiveLabels []string             `db:"exclusive_labels"`
	Capacity        int                  `db:"capacity"`
	JobsLeft        *int                 `db:"jobs_left"`
	Version         string               `db:"agent_version"`
	OS              string               `db:"os"`
	Arch            string               `db:"arch"`
	Sandboxes       []string             `db:"sandboxes"`
	Serial          string               `db:"serial"`
	NotAfter        time.Time            `db:"not_after"`
	NextSerial      string               `db:"next_serial"`
	NextNotAfter    *time.Time           `db:"next_not_after"`
	Enrollment      events.ID            `db:"enrollment_id"`
	EnrolledAt      time.Time            `db:"enrolled_at"`
	ChangedAt       time.Time            `db:"changed_at"`
}

var runners = &fold.Table[events.ID, runnerRow]{
	View: "runners", Updated: fold.Inline, Key: "runner_id",
	Kinds: []string{"runner"},
	Keys: func(r events.Record) []events.ID {
		switch r.Event.(type) {
		case events.RunnerEnrolled, events.RunnerOnline, events.RunnerOffline, events.RunnerDrainRequested, events.RunnerDrainEnded,
			events.RunnerJobTaken, events.RunnerJobReturned, events.RunnerCertificateRenewed, events.RunnerCertificateSuperseded,
			events.RunnerSuspended, events.RunnerRevoked, events.RunnerRetired:
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(id events.ID, row *runnerRow, r events.Record) *runnerRow {
		if e, ok := r.Event.(events.RunnerEnrolled); ok {
			return newRunnerRow(id, e, r)
		}
		after := *row
		after.applyConnection(r)
		after.applyEnd(r)
		switch e := r.Event.(type) {
		case events.RunnerJobTaken:
			after.JobsLeft = &e.Left
		case events.RunnerJobReturned:
			after.JobsLeft = &e.Left
		case events.RunnerCertificateRenewed:
			after.NextSerial, after.NextNotAfter = e.Certificate.Serial, &e.Certificate.NotAfter
		case events.RunnerCertificateSuperseded:
			after.Serial, after.NextSerial = e.Serial, ""
			if after.NextNotAfter != nil {
				after.NotAfter, after.NextNotAfter = *after.NextNotAfter, nil
			}
		}
		if after.State != row.State {
			after.ChangedAt = r.At
		}
		return &after
	},
}

func newRunnerRow(id events.ID, e events.RunnerEnrolled, r events.Record) *runnerRow {
	row := &runnerRow{
		Workspace: r.Workspace, ID: id, Name: e.Name, State: events.RunnerStateEnrolled,
		Labels: events.RunnerLabels(e.MintedLabels, e.Labels), MintedLabels: append([]string{}, e.MintedLabels...),
		ExclusiveLabels: e.ExclusiveLabels, Capacity: e.Capacity,
		Serial: e.Certificate.Serial, NotAfter: e.Certificate.NotAfter, Enrollment: e.Enrollment, EnrolledAt: r.At, ChangedAt: r.At,
	}
	if e.Jobs > 0 {
		row.JobsLeft = &e.Jobs
	}
	row.setAgent(e.Agent)
	return row
}

func (row *runnerRow) setAgent(a events.Agent) {
	row.Version, row.OS, row.Arch, row.Sandboxes = a.Version, a.OS, a.Arch, a.Sandboxes
	if row.Sandboxes == nil {
		row.Sandboxes = []string{}
	}
}

func (row *runnerRow) applyConnection(r events.Record) {
	switch e := r.Event.(type) {
	case events.RunnerOnline:
		row.Labels, row.Capacity, row.OfflineReason = events.RunnerLabels(row.MintedLabels, e.Labels), e.Capacity, ""
		row.setAgent(e.Agent)
		row.State = events.RunnerStateOnline
		if row.Draining {
			row.State = events.RunnerStateDraining
		}
	case events.RunnerOffline:
		row.State, row.OfflineReason = events.RunnerStateOffline, e.Reason
	case events.RunnerDrainRequested:
		row.Draining, row.Note, row.NotedBy = true, e.Note, r.Actor.Name
		if row.State == events.RunnerStateOnline {
			row.State = events.RunnerStateDraining
		}
	case events.RunnerDrainEnded:
		row.Draining, row.Note, row.NotedBy = false, "", ""
		if row.State == events.RunnerStateDraining {
			row.State = events.RunnerStateOnline
		}
	}
}

func (row *runnerRow) applyEnd(r events.Record) {
	switch e := r.Event.(type) {
	case events.RunnerSuspended:
		row.State = events.RunnerStateSuspended
	case events.RunnerRevoked:
		row.State, row.Note, row.NotedBy = events.RunnerStateRevoked, e.Note, r.Actor.Name
		if r.Actor.Type == events.ByRunner { // it was uninstalled
			row.NotedBy = ""
		}
	case events.RunnerRetired:
		row.State = events.RunnerStateRetired
	}
}
