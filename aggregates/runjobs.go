package aggregates

import (
	"bytes"
	"slices"

	"svc/events"
)

// OpenJobs returns the jobs that the run requested and has not seen end, sorted by id.
func (r *Run) OpenJobs() (ids []events.ID) {
	for _, j := range r.p.Jobs {
		if j.State == "" {
			ids = append(ids, j.Job)
		}
	}
	slices.SortFunc(ids, func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// Settled reports whether the run has recorded how one of its jobs ended.
func (r *Run) Settled(job events.ID) bool {
	i := r.p.job(job)
	return i >= 0 && r.p.Jobs[i].State != ""
}
