package farmviews

import (
	"time"

	"svc/events"
	"svc/projections/fold"
)

type jobSpec struct {
	Workspace events.ID      `db:"workspace_id"`
	ID        events.ID      `db:"job_id"`
	Spec      events.JobSpec `db:"spec"`
}

// Bytes returns the approximate size of the specification in memory. Comparisons of the view use it.
func (s *jobSpec) Bytes() (n int) {
	for _, step := range s.Spec.Steps {
		n += len(step.Run)
		for name, value := range step.Env {
			n += len(name) + len(value)
		}
	}
	for name, value := range s.Spec.Annotations {
		n += len(name) + len(value)
	}
	return n
}

// jobSpecs has the submitted specifications. They are a table of their own because rows of jobs are
// rewritten with each event.
var jobSpecs = &fold.Table[events.ID, jobSpec]{
	View: "job_specs", Updated: fold.Inline, Key: "job_id",
	Kinds: []string{"job.submitted"},
	Keys: func(r events.Record) []events.ID {
		if _, ok := r.Event.(events.JobSubmitted); ok {
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(id events.ID, _ *jobSpec, r events.Record) *jobSpec {
		return &jobSpec{Workspace: r.Workspace, ID: id, Spec: r.Event.(events.JobSubmitted).Spec}
	},
}

// A JobArtifact is a file that a job left and that is completely stored.
type JobArtifact struct {
	Workspace events.ID `db:"workspace_id"`
	ID        events.ID `db:"artifact_id"`
	Job       events.ID `db:"job_id"`
	Epoch     int       `db:"epoch"`
	Name      string    `db:"name"`
	Path      string    `db:"path"`
	Size      int64     `db:"size"`
	SHA256    string    `db:"sha256"`
	Mode      int       `db:"mode"`
	StoredAt  time.Time `db:"stored_at"`
}

var jobArtifacts = &fold.Table[events.ID, JobArtifact]{
	View: "job_artifacts", Updated: fold.Inline, Key: "artifact_id",
	Kinds: []string{"job.artifact_stored", "job.artifacts_removed"},
	Keys: func(r events.Record) []events.ID {
		switch e := r.Event.(type) {
		case events.JobArtifactStored:
			return []events.ID{e.File.ID}
		case events.JobArtifactsRemoved:
			return e.IDs
		}
		return nil
	},
	Apply: func(id events.ID, _ *JobArtifact, r events.Record) *JobArtifact {
		e, ok := r.Event.(events.JobArtifactStored)
		if !ok {
			return nil
		}
		return &JobArtifact{
			Workspace: r.Workspace, ID: id, Job: r.Stream, Epoch: e.Epoch, Name: e.File.Name, Path: e.File.Path,
			Size: e.File.Size, SHA256: e.File.SHA256, Mode: e.File.Mode, StoredAt: r.At,
		}
	},
}

// JobCounts says how many jobs of a workspace are queued, are held by runners, and have ended.
type JobCounts struct {
	Workspace events.ID `db:"workspace_id"`
	Queued    int       `db:"queued"`
	Held      int       `db:"held"`
	Ended     int64     `db:"ended"`
}

var jobCounts = &fold.Table[events.ID, JobCounts]{
	View: "job_counts", Updated: fold.Inline, Key: "workspace_id", GlobalKey: true,
	Kinds: []string{
		"job.submitted", "job.leased", "job.requeued", "job.finished", "job.cancelled", "job.lost", "job.expired",
	},
	Keys: func(r events.Record) []events.ID {
		switch r.Event.(type) {
		case events.JobSubmitted, events.JobLeased, events.JobRequeued, events.JobFinished, events.JobCancelled, events.JobLost,
			events.JobExpired:
			return []events.ID{r.Workspace}
		}
		return nil
	},
	Apply: func(workspace events.ID, c *JobCounts, r events.Record) *JobCounts {
		after := JobCounts{Workspace: workspace}
		if c != nil {
			after = *c
		}
		switch e := r.Event.(type) {
		case events.JobSubmitted:
			after.Queued++
		case events.JobLeased:
			after.Queued, after.Held = after.Queued-1, after.Held+1
		case events.JobRequeued:
			after.Queued, after.Held = after.Queued+1, after.Held-1
		case events.JobExpired:
			after.Queued, after.Ended = after.Queued-1, after.Ended+1
		case events.JobCancelled:
			after.Ended++
			if e.Epoch == 0 {
				after.Queued--
			} else {
				after.Held--
			}
		default:
			after.Held, after.Ended = after.Held-1, after.Ended+1
		}
		return &after
	},
}
