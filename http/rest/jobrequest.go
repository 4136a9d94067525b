package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/input"
	"svc/projections"
)

var (
	errIdempotency = fault.New(fault.Conflict, "idempotency_conflict", "This idempotencyKey belongs to another job.")
	errQueueFull   = fault.New(fault.RateLimited, "farm_queue_full", "As many jobs wait as may, or yours ask for too many different things.").
			After(30 * time.Second)
)

// mostQueued is how many jobs of a workspace may wait, 7,500 of one caller's where there are no others.
const mostQueued = 10_000

// A jobRequest asks for a job, or for the end of one.
type jobRequest struct {
	Body struct {
		Action string `json:"action,omitempty" enum:"submit,cancel" doc:"By default submit."`

		JobID  string `json:"jobId,omitempty" format:"uuid" doc:"Of a cancel: the job."`
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Of a cancel: why." example:"superseded"`
		Grace  *int   `json:"graceSeconds,omitempty" minimum:"0" maximum:"600" doc:"Of a cancel: what the job has to end by itself, instead of its cancelGraceSeconds. 0 kills it at once."`

		JobSubmission
	}
}

// A JobSubmission is what a job is made of. All but the name and the steps may be left out.
type JobSubmission struct {
	IdempotencyKey string             `json:"idempotencyKey,omitempty" maxLength:"190" doc:"Makes the request happen once however often the caller sends it, for 30 days at least." example:"ci-4711-test"`
	Name           string             `json:"name,omitempty" maxLength:"100" doc:"Needed to submit." example:"unit tests"`
	Repo           *jobRepo           `json:"repo,omitempty" doc:"What is checked out before the first step."`
	Steps          []jobStepSpec      `json:"steps,omitempty" maxItems:"50" nullable:"false" doc:"Needed to submit. They run one after the other until one fails."`
	Requires       *jobRequires       `json:"requires,omitempty"`
	Sandbox        *jobSandbox        `json:"sandbox,omitempty"`
	Secrets        []string           `json:"secrets,omitempty" maxItems:"50" nullable:"false" doc:"Names of secrets of the workspace, which the steps get as variables. Their values may have 512 KiB together." example:"[\"NPM_TOKEN\"]"`
	Artifacts      []jobArtifactSpec  `json:"artifacts,omitempty" maxItems:"20" nullable:"false"`
	Priority       events.JobPriority `json:"priority,omitempty" enum:"low,normal,high" doc:"By default normal. A step is worth an hour of waiting."`
	Timeouts       *jobTimeouts       `json:"timeouts,omitempty"`
	Retry          *jobRetry          `json:"retry,omitempty"`
	Concurrency    *jobConcurrency    `json:"concurrency,omitempty"`
	Annotations    map[string]string  `json:"annotations,omitempty" doc:"Notes that come with the job wherever it is shown." example:"{\"issue\": \"42\"}"`
}

// cancelGrace is what a job has to end by itself that does not say.
const cancelGrace = 30

// spec is the submission as the aggregate judges it.
func (b *JobSubmission) spec() events.JobSpec {
	s := events.JobSpec{
		Name: b.Name, Secrets: b.Secrets, Priority: b.Priority, Annotations: b.Annotations,
		Timeouts: events.JobTimeouts{CancelGraceSeconds: cancelGrace},
	}
	if b.Repo != nil {
		id, _ := events.ParseID(b.Repo.ID) // looked up later
		s.Repo = &events.JobRepo{ID: id, Commit: b.Repo.Commit, Ref: b.Repo.Ref}
	}
	for _, step := range b.Steps {
		s.Steps = append(s.Steps, events.JobStep(step))
	}
	if b.Requires != nil {
		s.Requires = events.JobRequires(*b.Requires)
	}
	if b.Sandbox != nil {
		s.Sandbox = events.JobSandbox(*b.Sandbox)
	}
	for _, a := range b.Artifacts {
		s.Artifacts = append(s.Artifacts, events.JobArtifactSpec(a))
	}
	if t := b.Timeouts; t != nil {
		s.Timeouts.QueueSeconds, s.Timeouts.RunSeconds = t.QueueSeconds, t.RunSeconds
		if t.CancelGraceSeconds != nil {
			s.Timeouts.CancelGraceSeconds = *t.CancelGraceSeconds
		}
	}
	if b.Retry != nil {
		s.Retry = events.JobRetry(*b.Retry)
	}
	if b.Concurrency != nil {
		concurrency := events.JobConcurrency(*b.Concurrency)
		s.Concurrency = &concurrency
	}
	return s
}

// command is what is asked for: [commands.SubmitJob] or [commands.CancelJob].
func (in *jobRequest) command(c *caller, _ events.ID) (commands.Deniable, error) {
	b := &in.Body
	if b.Action == "cancel" {
		cancel := commands.CancelJob{Meta: c.meta(), Reason: b.Reason, Grace: b.Grace, Token: c.fingerprint}
		if !reflect.ValueOf(b.JobSubmission).IsZero() {
			return cancel, invalid("action", "must be submit where more is said than jobId, reason and graceSeconds")
		}
		id, err := events.ParseID(b.JobID)
		if err != nil {
			return cancel, cmp.Or(missingJob(b.JobID), error(aggregates.ErrNoJob))
		}
		cancel.Job = id
		return cancel, nil
	}
	submit := commands.SubmitJob{Meta: c.meta(), Token: c.fingerprint}
	submit.Spec.Name = b.Name
	if b.JobID != "" || b.Reason != "" || b.Grace != nil {
		return submit, invalid("action", "must be cancel where jobId, reason or graceSeconds is said")
	}
	if input.HasToken(b.IdempotencyKey) { // it is kept
		return submit, invalid("idempotencyKey", "must not hold a service token")
	}
	if b.IdempotencyKey != "" {
		submit.Key = "job/" + b.IdempotencyKey
	}
	spec, err := aggregates.CheckJob(b.spec())
	submit.Spec = spec
	return submit, err
}

func missingJob(id string) error {
	if id == "" {
		return invalid("jobId", "is missing")
	}
	return nil
}

type jobAnswerBody struct {
	Job FarmJob `json:"job"`
}

type jobAnswer struct {
	Status   int
	Location string `header:"Location" doc:"Where the new job is."`
	Replayed string `header:"Idempotency-Replayed" doc:"true if the job was submitted before."`
	Position
	Body jobAnswerBody
}

func (s *Server) askJob(ctx context.Context, in *jobRequest, asked commands.Deniable) (*jobAnswer, error) {
	if cancel, ok := asked.(commands.CancelJob); ok {
		return s.cancelJob(ctx, cancel)
	}
	return s.submitJob(ctx, in.Body.Repo, asked.(commands.SubmitJob))
}

func (s *Server) submitJob(ctx context.Context, in *jobRepo, submit commands.SubmitJob) (*jobAnswer, error) {
	c := callerOf(ctx)
	fairKey := "account/" + c.envelope.Actor.ID.String()
	if in != nil {
		repo, ok, err := s.views.Runs.Repo(ctx, c.workspace, submit.Spec.Repo.ID)
		switch {
		case err != nil:
			return nil, err
		case !ok || submit.Spec.Repo.ID.IsZero():
			return nil, invalid("repo.id", "must be a repository of the workspace")
		}
		submit.Spec.Repo.Name, fairKey = repo.Name, "repo/"+repo.ID.String()
	}
	submit.Job = events.NewID(s.now())
	submit.FairKey = fairKey + "/" + string(submit.Spec.Priority)
	submit.Turn = func(ctx context.Context) (int64, error) {
		if err := s.knowSecrets(ctx, submit); err != nil {
			return 0, err
		}
		return s.turn(ctx, submit)
	}
	done, err := s.commands.SubmitJob(ctx, submit)
	if errors.Is(err, commands.ErrKeyReused) {
		err = errIdempotency
	}
	if err != nil {
		return nil, err
	}
	if !done.Replayed {
		return s.showJob(ctx, done, submit.Job, http.StatusCreated)
	}
	var kept commands.JobAnswer
	if err := json.Unmarshal(done.Answer, &kept); err != nil {
		return nil, fmt.Errorf("read kept answer: %w", err)
	}
	out, err := s.showJob(ctx, done, kept.Job, http.StatusOK)
	if err == nil {
		out.Replayed = "true"
	}
	return out, err
}

// knowSecrets refuses a job that names a secret which the workspace does not have, or more
// than a runner can be told.
func (s *Server) knowSecrets(ctx context.Context, submit commands.SubmitJob) error {
	if len(submit.Spec.Secrets) == 0 {
		return nil
	}
	known, err := s.views.FarmSecrets.List(ctx, submit.Workspace)
	if err != nil {
		return err
	}
	var values []events.ID
	for _, name := range submit.Spec.Secrets {
		at := slices.IndexFunc(known, func(k projections.FarmSecret) bool { return k.Name == name })
		if at < 0 {
			return invalid("secrets", "must be names of secrets of the workspace")
		}
		values = append(values, known[at].Value)
	}
	size, err := s.farm.Vault.Size(ctx, submit.Workspace, values)
	if err == nil && size > aggregates.MaxSecretBytes {
		err = invalid("secrets", "must have 512 KiB or less together")
	}
	return err
}

const (
	priorityStep = time.Hour        // by which a job of the next higher priority goes before
	fairStep     = 10 * time.Second // between jobs of the same repository or account
)

// turn is the place of a job in the queue: the time at which it comes, sooner with a high
// priority, and after those of the same key, each of which takes a while. So whoever
// submits a thousand jobs at once takes one turn in each such while, as everybody does.
func (s *Server) turn(ctx context.Context, submit commands.SubmitJob) (int64, error) {
	by := submit.Actor.ID
	q, err := s.views.Jobs.Queue(ctx, submit.Workspace, by, submit.FairKey, submit.Spec.Required().Key())
	if err != nil {
		return 0, err
	}
	full, err := s.views.Jobs.QueueFull(ctx, submit.Workspace, by, q.Length, mostQueued)
	switch {
	case err != nil:
		return 0, err
	case full:
		return 0, errQueueFull.With("queued", q.Length)
	case q.Requirements > projections.MaxRequirements:
		return 0, errQueueFull.With("requirements", projections.MaxRequirements)
	}
	ahead := map[events.JobPriority]int{events.HighPriority: 1, events.LowPriority: -1}[submit.Spec.Priority]
	own := s.now().Add(-time.Duration(ahead) * priorityStep).UnixMilli()
	if q.LastTurn == 0 {
		return own, nil
	}
	return max(own, q.LastTurn+fairStep.Milliseconds()), nil
}

func (s *Server) cancelJob(ctx context.Context, cancel commands.CancelJob) (*jobAnswer, error) {
	done, err := s.commands.CancelJob(ctx, cancel)
	if err != nil {
		return nil, err
	}
	out, err := s.showJob(ctx, done, cancel.Job, http.StatusAccepted)
	if err == nil && done.Idle && out.Body.Job.State.Final() {
		out.Status = http.StatusOK
	}
	return out, err
}

// showJob answers a job as a command left it.
func (s *Server) showJob(ctx context.Context, done commands.Result, id events.ID, status int) (*jobAnswer, error) {
	found, err := s.findJob(ctx, id.String())
	if err != nil {
		return nil, err
	}
	one, err := s.jobNow(ctx, found)
	if err != nil {
		return nil, err
	}
	out := &jobAnswer{Status: status, Position: Position{done.Position}, Body: jobAnswerBody{one}}
	if status == http.StatusCreated {
		out.Location = prefix + "/farm/jobs/" + id.String()
	}
	return out, nil
}

// jobResponse describes an answer that has a job, of another status than the usual one.
func jobResponse(text string) *huma.Response {
	return &huma.Response{
		Description: text,
		Headers: map[string]*huma.Param{
			"Idempotency-Replayed": {Schema: &huma.Schema{Type: huma.TypeString}},
			"X-Svc-Position":       {Schema: &huma.Schema{Type: huma.TypeInteger}},
		},
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/JobAnswerBody"}}},
	}
}
