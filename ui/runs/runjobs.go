package runs

import (
	"strconv"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// logTailBytes is the size of the end of a log that the page of a run shows.
const logTailBytes = 6 << 10

// jobPath returns the address of a job. It names the run for a link back: the farm does not
// know the run of a job.
func jobPath(v *page.Visit, r client.Run, j client.RunJob) string {
	return v.Path("farm", "jobs", j.Id) + "?run=" + r.Id
}

// jobState returns the state of a job, from the farm if the run only knows that it was requested.
func jobState(j client.RunJob) string {
	if j.Farm != nil && j.Status == client.RunJobStatusRequested {
		return string(j.Farm.State)
	}
	return string(j.Status)
}

// jobSummary describes what a job is for, its attempt and round and, unless it succeeded, its state and runner.
func jobSummary(j client.RunJob) string {
	var parts []string
	if j.Purpose != nil {
		parts = append(parts, purposes[*j.Purpose])
	}
	if j.Attempt > 1 {
		parts = append(parts, "attempt "+kit.Digits(j.Attempt))
	}
	if j.Round > 1 || j.Round == 1 && j.Purpose == nil {
		parts = append(parts, "round "+kit.Digits(j.Round))
	}
	if state := strings.ReplaceAll(jobState(j), "_", " "); state != "succeeded" {
		// A queued job may still name the runner of its last attempt.
		if j.Farm != nil && j.Farm.Runner != nil && j.Farm.State != client.JobAtFarmStateQueued {
			state += " on " + j.Farm.Runner.Name
		}
		if j.ExitCode != nil && *j.ExitCode != 0 {
			state += " with exit code " + kit.Digits(*j.ExitCode)
		}
		parts = append(parts, state)
	}
	return strings.Join(parts, ", ")
}

// jobDuration returns how long a job has taken so far, and whether it is still running.
func jobDuration(j client.RunJob, now time.Time) (d time.Duration, running bool) {
	switch f := j.Farm; {
	case f == nil || f.StartedAt == nil:
		return kit.Millis(j.ComputeMs), false
	case f.FinishedAt == nil:
		return max(now.Sub(*f.StartedAt), 0), true
	default:
		return f.FinishedAt.Sub(*f.StartedAt), false
	}
}

// lastLoggedJob returns the newest job that has a log on the farm, or nil.
func (d runData) lastLoggedJob() *client.RunJob {
	for i := len(d.Resources.Jobs) - 1; i >= 0; i-- {
		if f := d.Resources.Jobs[i].Farm; f != nil && f.Attempt > 0 {
			return &d.Resources.Jobs[i]
		}
	}
	return nil
}

// lackOfLog says what a log lacks, "" if that is nothing or not known yet.
func lackOfLog(j client.JobAtFarm) string {
	state := kit.LogState(string(j.Log.Integrity), j.Log.Truncated)
	if state == "" || state == kit.LogState(string(client.JobLogIntegrityVerified), false) {
		return ""
	}
	return ", " + strings.ToLower(state)
}

// logEndPath returns the address of the end of a job's log.
func logEndPath(v *page.Visit, j client.RunJob) string {
	path := v.Path("farm", "jobs", j.Id, "lines") + "?attempt=" + kit.Digits(j.Farm.Attempt)
	if from := j.Farm.Log.Bytes - logTailBytes; from > 0 {
		return path + "&cut=on&from=" + strconv.FormatInt(from, 10)
	}
	return path + "&from=0"
}
