package loop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/input/markdown"
)

// Defaults of jobs that settings leave open.
const (
	defaultRun     = 3600 // seconds
	defaultIdle    = 900
	queueSeconds   = 24 * 3600
	cancelGrace    = 30
	maxLogTail     = 32 << 10
	maxTaskFinding = 20
)

// startJob submits a job, in the commit that records that the run asked for it.
func (r *runner) startJob(ctx context.Context, j Job) error {
	spec, input, err := r.spec(ctx, j)
	if err != nil {
		return err
	}
	if spec, err = farm.CheckJob(spec); err != nil {
		return fmt.Errorf("job %s of run %s: %w", j.Name, r.run, err)
	}
	_, err = r.Queue.StartRunJob(ctx, commands.StartRunJob{
		Meta: r.meta(), Run: r.run, After: r.p.Version, Spec: spec, RepoName: r.from.Name(),
		Request: events.RunJobRequested{
			Job: events.NewID(r.Now()), Name: j.Name, Head: j.Head, Purpose: j.Purpose, Attempt: j.Attempt, Input: spec.InputSHA256,
		},
	}, input)
	return err
}

// spec returns the specification of a job and the input that it receives, if any.
func (r *runner) spec(ctx context.Context, j Job) (events.JobSpec, []byte, error) {
	spec := events.JobSpec{
		Name: j.Name, Priority: events.NormalPriority,
		Annotations: map[string]string{runAnnotation: r.run.String(), "purpose": string(j.Purpose)},
		Repo:        &events.JobRepo{ID: r.p.Repo.ID, Name: r.from.Name(), Commit: j.Head, Ref: r.refOf(j)},
		Retry:       events.JobRetry{MaxAttempts: 2, On: []string{"lost", "infra"}},
	}
	if j.Purpose.IsImplementers() {
		return r.implementSpec(ctx, spec, j.Purpose)
	}
	policy, _, err := r.policy(ctx)
	if err != nil {
		return spec, nil, err
	}
	jobs, err := requiredJobs(policy)
	if err != nil {
		return spec, nil, err
	}
	at := slices.IndexFunc(jobs, func(q events.RequiredJob) bool { return q.Name == j.Name })
	if at < 0 {
		return spec, nil, fmt.Errorf("run %s: its policy requires no job %s", r.run, j.Name)
	}
	q := jobs[at]
	spec.Steps, spec.Requires.Labels, spec.Sandbox = q.Steps, q.Labels, q.Sandbox
	if q.SecretsBeforeApproval || j.Purpose != events.JobRequired { // a candidate is made of an approved commit
		spec.Secrets = q.Secrets
	}
	spec.Timeouts = events.JobTimeouts{
		QueueSeconds: queueSeconds, RunSeconds: cmp.Or(q.RunSeconds, defaultRun), CancelGraceSeconds: cancelGrace, IdleSeconds: defaultIdle,
	}
	return spec, nil, nil
}

// refOf returns a ref that contains the commit of a job until the run is tidied up, for hosts that give out only
// what a ref names.
func (r *runner) refOf(j Job) string {
	switch {
	case j.Purpose == events.JobLane:
		return "refs/heads/" + r.lane()
	case j.Purpose == events.JobAfterMerge, r.p.Branch == "", j.Head == r.p.Base.Commit:
		return "refs/heads/" + r.p.Base.Branch
	}
	return "refs/heads/" + r.p.Branch
}

// implementSpec completes the specification of a job that runs the implementer.
func (r *runner) implementSpec(ctx context.Context, spec events.JobSpec, purpose events.JobPurpose) (events.JobSpec, []byte, error) {
	i := r.repo.Settings.Implementer
	spec.Steps = []events.JobStep{{Name: string(purpose), Run: i.Run}}
	spec.Secrets, spec.Requires.Labels, spec.Sandbox, spec.Collect = i.Secrets, i.Labels, i.Sandbox, true
	spec.Timeouts = events.JobTimeouts{
		QueueSeconds: queueSeconds, RunSeconds: cmp.Or(i.RunSeconds, defaultRun), CancelGraceSeconds: cancelGrace,
		IdleSeconds: cmp.Or(i.IdleSeconds, defaultIdle),
	}
	t, err := r.task(ctx, purpose)
	if err != nil {
		return spec, nil, err
	}
	input, err := json.Marshal(t)
	return spec, input, fault.Wrap(err, "encode task of run %s", r.run)
}

// A task is task.json, what an implementer is asked for. Contract is its version.
type task struct {
	Contract     int        `json:"contract"`
	Stage        string     `json:"stage"` // analyze, plan, implement, fix, conflict, review
	Run          string     `json:"run"`
	Round        int        `json:"round"`
	Issue        taskIssue  `json:"issue"`
	Facts        []string   `json:"facts"`
	Plan         string     `json:"plan"`
	Findings     []string   `json:"findings"` // why there is another round, oldest first
	LogTail      string     `json:"logTail,omitempty"`
	PreviousDiff string     `json:"previousDiff,omitempty"` // what an earlier round made, if it is not in the checkout
	Instructions string     `json:"instructions,omitempty"`
	Limits       taskLimits `json:"limits"`
}

type taskIssue struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	URL    string `json:"url,omitempty"`
}

type taskLimits struct {
	Seconds     int   `json:"seconds"`
	IdleSeconds int   `json:"idleSeconds"`
	Cents       int64 `json:"cents"` // that are left; 0 means no limit
	Files       int   `json:"files"`
	Lines       int   `json:"lines"`
}

// task returns the task of the present round.
func (r *runner) task(ctx context.Context, purpose events.JobPurpose) (task, error) {
	policy, _, err := r.policy(ctx)
	if err != nil {
		return task{}, err
	}
	i := r.repo.Settings.Implementer
	body, _ := markdown.Shown(r.p.IssueRead.Body)
	t := task{
		Contract: 1, Stage: string(purpose), Run: r.run.String(), Round: r.p.Round(), Facts: r.p.Facts,
		Findings: r.p.Findings[max(0, len(r.p.Findings)-maxTaskFinding):], Instructions: policy.Instructions,
		Issue:  taskIssue{r.p.Issue, r.p.IssueRead.Title, body, r.p.IssueRead.URL},
		Limits: taskLimits{cmp.Or(i.RunSeconds, defaultRun), cmp.Or(i.IdleSeconds, defaultIdle), 0, policy.MaxFiles, policy.MaxLines},
	}
	if policy.Cents > 0 {
		t.Limits.Cents = max(1, policy.Cents-r.p.Cents)
	}
	if budget := r.repo.Settings.IssueCents; budget > 0 {
		spent, _ := r.issue.Costs()
		t.Limits.Cents = min(cmp.Or(t.Limits.Cents, budget), max(1, budget-spent))
	}
	if r.p.Plan != nil {
		t.Plan = r.p.Plan.Summary
	}
	switch {
	case purpose != events.JobImplements:
	case r.p.Rebased:
		t.Stage = "conflict"
	case r.p.Round() > 1:
		t.Stage = "fix"
	}
	if last := lastJob(r.p, events.JobImplements, "", ""); last != nil &&
		(r.p.Rebased || r.p.HeadRound < last.Round || purpose == events.JobReviews) {
		diff, err := r.readFile(ctx, last.Job, diffFile, maxPreviousDiff)
		if err != nil && !errors.Is(err, errNoFile) {
			return task{}, err
		}
		t.PreviousDiff = mask(string(diff))
	}
	if failed := lastFailed(r.p); failed != nil {
		tail, err := r.logTail(ctx, failed.Job, maxLogTail)
		if err != nil {
			return task{}, err
		}
		t.LogTail = mask(string(bytes.ToValidUTF8(tail, []byte("�"))))
	}
	return t, nil
}

const maxPreviousDiff = 256 << 10

// lastFailed returns the newest job that failed on the head, if one did.
func lastFailed(p *aggregates.Progress) *aggregates.RunJob {
	for i := len(p.Jobs) - 1; i >= 0; i-- {
		j := &p.Jobs[i]
		if !j.Purpose.IsImplementers() && j.Round == p.Round()-1 && j.State != "" && j.State != events.JobStateSucceeded {
			return j
		}
	}
	return nil
}
