package runs

import (
	"strconv"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// logShown is how many bytes of the end of a log the page of a run shows.
const logShown = 6 << 10

// jobPath leads to a job of a run, whose page leads back: the farm does not know the run of a job.
func jobPath(v *page.Visit, r client.Run, j client.RunJob) string {
	return v.Path("farm", "jobs", j.Id) + "?run=" + r.Id
}

// settled is what became of a job, or how far it is: by the word of the farm, which knows it
// better than the run, if it has it.
func settled(j client.RunJob) string {
	if j.Farm != nil && j.Status == client.RunJobStatusRequested {
		return string(j.Farm.State)
	}
	return string(j.Status)
}

// jobState is its round and, unless it succeeded, that in words, with the machine.
func jobState(j client.RunJob) string {
	var parts []string
	if j.Round > 0 {
		parts = append(parts, "round "+kit.Digits(j.Round))
	}
	if state := strings.ReplaceAll(settled(j), "_", " "); state != "succeeded" {
		if j.Farm != nil && j.Farm.Runner != nil && j.Farm.State != client.JobAtFarmStateQueued { // one that waits again had it before
			state += " on " + j.Farm.Runner.Name
		}
		parts = append(parts, state)
	}
	return strings.Join(parts, ", ")
}

// jobTook is how long a job has taken; goes reports whether it still does.
func jobTook(j client.RunJob, now time.Time) (d time.Duration, goes bool) {
	switch f := j.Farm; {
	case f == nil || f.StartedAt == nil:
		return millis(j.ComputeMs), false
	case f.FinishedAt == nil:
		return max(now.Sub(*f.StartedAt), 0), true
	default:
		return f.FinishedAt.Sub(*f.StartedAt), false
	}
}

// built is the newest job that the farm has a log of, nil if there is none.
func (o one) built() *client.RunJob {
	for i := len(o.Resources.Jobs) - 1; i >= 0; i-- {
		if f := o.Resources.Jobs[i].Farm; f != nil && f.Attempt > 0 {
			return &o.Resources.Jobs[i]
		}
	}
	return nil
}

// logEnd is where the page of the job gives out the end of its log.
func logEnd(v *page.Visit, j client.RunJob) string {
	path := v.Path("farm", "jobs", j.Id, "lines") + "?attempt=" + kit.Digits(j.Farm.Attempt)
	if from := j.Farm.LogBytes - logShown; from > 0 {
		return path + "&cut=on&from=" + strconv.FormatInt(from, 10)
	}
	return path + "&from=0"
}
