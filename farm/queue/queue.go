// Package queue decides about waiting jobs of the build farm: whether the queue takes a job and which
// turn it gets ([Queue]), and which runner gets it ([Waiting]).
package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/farm/jobinput"
	"svc/fault"
	"svc/projections/farmviews"
)

// The reasons for which the queue takes no job.
var (
	ErrFull = fault.New(fault.RateLimited, "farm_queue_full",
		"Too many jobs are queued, or yours have too many different requirements.").
		After(30 * time.Second)
	ErrTooLarge = fault.New(fault.RateLimited, "farm_jobs_too_large",
		"The jobs that you, or this workspace, submitted in the last 24 hours are too large together. "+
			"Keep large texts in the repository or in artifacts.")
)

// maxQueued bounds the queued jobs of a workspace. A single caller without others can queue 7,500.
const maxQueued = 10_000

// A Queue takes the jobs of all workspaces. Its methods may be called concurrently.
type Queue struct {
	Commands *commands.Handler
	Jobs     farmviews.Jobs
	Secrets  farmviews.FarmSecrets
	Inputs   jobinput.Inputs
	Now      func() time.Time

	// SecretBytes returns the total size of the values of secrets.
	SecretBytes func(ctx context.Context, workspace events.ID, values []events.ID) (int64, error)

	// Count counts bytes of specifications that a workspace keeps for ever. If there are too many it
	// counts none and returns when there is room again. nil limits nothing.
	Count func(ctx context.Context, workspace, by events.ID, bytes int) (wait time.Duration)
}

// A request is a job that wants a turn.
type request struct {
	workspace, by events.ID
	fairKey       string
	spec          events.JobSpec
}

// fairKey returns the fair key of a job: it has the turns of its repository, or else those of who
// submits it, with other jobs of its priority.
func fairKey(spec events.JobSpec, by events.ID) string {
	owner := "account/" + by.String()
	if spec.Repo != nil {
		owner = "repo/" + spec.Repo.ID.String()
	}
	return owner + "/" + string(spec.Priority)
}

// Turn returns a function that returns the fair key and the turn of a job, or an error that refuses the job. It counts for
// by: the submitter, or the repository if that is the service itself. The size of its specification counts once, however
// often the function is called.
func (q Queue) Turn(workspace, by events.ID, spec events.JobSpec) func(context.Context) (fairKey string, turn int64, err error) {
	var once sync.Once
	var tooLarge error
	r := request{workspace, by, fairKey(spec, by), spec}
	return func(ctx context.Context) (string, int64, error) {
		if err := q.checkSecrets(ctx, r); err != nil {
			return "", 0, err
		}
		turn, err := q.turn(ctx, r)
		if err != nil {
			return "", 0, err
		}
		once.Do(func() { tooLarge = q.countSpec(ctx, r) })
		return r.fairKey, turn, tooLarge
	}
}

// checkSecrets refuses a job that names an unknown secret, or secrets whose values are too large together.
func (q Queue) checkSecrets(ctx context.Context, r request) error {
	if len(r.spec.Secrets) == 0 {
		return nil
	}
	known, err := q.Secrets.List(ctx, r.workspace)
	if err != nil {
		return err
	}
	var values []events.ID
	for _, name := range r.spec.Secrets {
		at := slices.IndexFunc(known, func(k farmviews.FarmSecret) bool { return k.Name == name })
		if at < 0 {
			return fault.Field("secrets", "must be the names of secrets of the workspace")
		}
		if !known[at].Scope.Allows(r.spec) {
			return fault.Field("secrets", "must be ones whose scope includes this job, by its name, its repository and the labels that it "+
				"requires: that of %s does not", name)
		}
		values = append(values, known[at].Value)
	}
	size, err := q.SecretBytes(ctx, r.workspace, values)
	if err == nil && size > farm.MaxSecretBytes {
		err = fault.Field("secrets", "must total 512 KiB or less")
	}
	return err
}

const (
	priorityStep = time.Hour        // advantage of the next higher priority
	fairStep     = 10 * time.Second // between the turns of jobs of the same repository or account
)

// turn returns a job's turn in the queue: its time of submission in milliseconds, earlier with a high
// priority, and at least fairStep after the last turn with the same fair key. So a thousand jobs that are
// submitted at once get one turn in each fairStep, in between the jobs of others.
func (q Queue) turn(ctx context.Context, r request) (int64, error) {
	now, err := q.Jobs.Queue(ctx, r.workspace, r.by, r.fairKey, r.spec.Required().Key())
	if err != nil {
		return 0, err
	}
	full, err := q.Jobs.QueueFull(ctx, r.workspace, r.by, now.Length, maxQueued)
	switch {
	case err != nil:
		return 0, err
	case full:
		return 0, ErrFull.With("queued", now.Length)
	case now.Requirements > farmviews.MaxRequirements:
		return 0, ErrFull.With("requirements", farmviews.MaxRequirements)
	}
	ahead := map[events.JobPriority]int{events.HighPriority: 1, events.LowPriority: -1}[r.spec.Priority]
	own := q.Now().Add(-time.Duration(ahead) * priorityStep).UnixMilli()
	if now.LastTurn == 0 {
		return own, nil
	}
	return max(own, now.LastTurn+fairStep.Milliseconds()), nil
}

// minSpecCount is what a small specification counts: its job has events and rows besides.
const minSpecCount = 1 << 10

// countSpec counts the size of a job's specification, which stays in the log for ever.
func (q Queue) countSpec(ctx context.Context, r request) error {
	text, err := json.Marshal(r.spec)
	switch {
	case err != nil:
		return fmt.Errorf("encode job: %w", err)
	case q.Count == nil:
		return nil
	}
	if wait := q.Count(ctx, r.workspace, r.by, max(len(text), minSpecCount)); wait > 0 {
		return ErrTooLarge.After(wait)
	}
	return nil
}

// StartRunJob starts a job of a run with the input that the job receives; nil is none. The input is stored first: if the
// command fails it is removed for its age.
func (q Queue) StartRunJob(ctx context.Context, c commands.StartRunJob, input []byte) (commands.Result, error) {
	if input != nil {
		sum, err := q.Inputs.Put(ctx, c.Workspace, c.Request.Job, input)
		if err != nil {
			return commands.Result{}, err
		}
		c.Request.Input, c.Spec.InputSHA256 = sum, sum
	}
	return q.Commands.StartRunJob(ctx, c)
}
