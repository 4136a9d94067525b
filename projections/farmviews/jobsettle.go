package farmviews

import (
	"slices"

	"svc/events"
)

// closeArtifacts records that no more artifacts come. If fails is true, a job that had succeeded
// becomes failed; its end and what its runner reported stay.
func (j *Job) closeArtifacts(state string, fails bool) {
	j.Artifacts.State = state
	if fails {
		j.failForArtifacts()
	}
	j.updateDue()
}

func (j *Job) failForArtifacts() {
	j.State, j.current().Ended = events.JobStateFailed, string(events.JobStateFailed)
	outcome := *j.Outcome
	outcome.Reason = events.ArtifactMissing
	j.Outcome = &outcome
}

// noteFailure records why the last attempt failed, unless recorded, and what its runner reported of its
// log.
func (j *Job) noteFailure(why string, said *events.JobAttemptReport) {
	if len(j.Attempts) == 0 {
		return
	}
	a := j.current()
	if a.Reason == "" {
		a.Reason = why
	}
	if said != nil {
		a.Sent = &said.Log
	}
}

func (j *Job) seal(e events.JobLogSealed) {
	for i := range j.Attempts {
		if j.Attempts[i].Epoch == e.Epoch {
			j.Attempts[i].Log = &JobLog{Bytes: e.Bytes, Chunks: e.Chunks, SHA256: e.SHA256, Truncated: e.Truncated, Integrity: e.Integrity}
		}
	}
	j.updateDue()
}

// updateDue sets when dispatch has to act on an ended job: not any more once all its logs are sealed
// and no artifacts are expected.
func (j *Job) updateDue() {
	if !j.State.Final() {
		return
	}
	j.DueAt = j.FinishedAt
	if slices.ContainsFunc(j.Attempts, func(a JobAttempt) bool { return a.Log == nil }) {
		return
	}
	j.DueAt = nil
	if j.Artifacts.State == "awaiting" || j.Artifacts.State == "partial" {
		due := j.FinishedAt.Add(events.ArtifactUploadWindow)
		j.DueAt = &due
	}
}
