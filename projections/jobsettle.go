package projections

import (
	"slices"
	"time"

	"svc/events"
)

// closeArtifacts says that no more files come, and that a job which had succeeded has failed by that
// if it has: it ended when it did, and what its runner reported stays.
func (j *Job) closeArtifacts(state string, fails bool) {
	j.Artifacts.State = state
	if fails {
		j.lackArtifacts()
	}
	j.settle()
}

func (j *Job) lackArtifacts() {
	j.State, j.current().Ended = events.JobFailed, string(events.JobFailed)
	outcome := *j.Outcome
	outcome.Reason = events.ArtifactMissing
	j.Outcome = &outcome
}

// failed says why the last attempt came to no end, once, and what its runner said of its log.
func (j *Job) failed(why string, said *events.JobAttemptReport) {
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
			j.Attempts[i].Log = &JobLog{Bytes: e.Bytes, Chunks: e.Chunks, SHA256: e.SHA256, Integrity: e.Integrity}
		}
	}
	j.settle()
}

// settle says when the clock has to look at a job that has ended: never, once its logs
// are sealed and nothing of its artifacts is awaited.
func (j *Job) settle() {
	if !j.State.Final() {
		return
	}
	j.DueAt = j.FinishedAt
	if slices.ContainsFunc(j.Attempts, func(a JobAttempt) bool { return a.Log == nil }) {
		return
	}
	j.DueAt = nil
	if j.Artifacts.State == "awaiting" || j.Artifacts.State == "partial" {
		due := j.FinishedAt.Add(ArtifactsLimit)
		j.DueAt = &due
	}
}

// ArtifactsLimit is how long after its end the artifacts of a job are waited for.
const ArtifactsLimit = time.Hour
