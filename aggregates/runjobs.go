package aggregates

import (
	"bytes"
	"maps"
	"slices"

	"svc/events"
)

// OpenJobs returns the jobs that the run requested, in the order of their ids. Some of them may
// have ended.
func (r *Run) OpenJobs() []events.ID {
	return slices.SortedFunc(maps.Keys(r.jobs), func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) })
}

// Closed reports whether the job has ended and nothing more comes of it: a job that has succeeded
// may still fail while artifacts that it requires are expected.
func (j *Job) Closed() bool { return j.state.Final() && j.artifacts.closed }

// Epoch returns the number of the job's last lease, 0 if there was none.
func (j *Job) Epoch() int { return j.epoch }
