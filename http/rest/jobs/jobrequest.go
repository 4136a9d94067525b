package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/input"
)

var errKeyConflict = fault.New(fault.Conflict, "idempotency_conflict", "This idempotencyKey was used for another job.")

// A jobRequest submits or cancels a job.
type jobRequest struct {
	Body struct {
		Action string `json:"action,omitempty" enum:"submit,cancel" doc:"Defaults to submit."`

		JobID  string `json:"jobId,omitempty" format:"uuid" doc:"For cancel: the job's id."`
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"For cancel: the reason." example:"superseded"`
		Grace  *int   `json:"graceSeconds,omitempty" minimum:"0" maximum:"600" doc:"For cancel: the seconds that the job has to end by itself, instead of its cancelGraceSeconds. 0 kills it at once."`

		JobSubmission
	}
}

// A JobSubmission is the spec of a new job. Only the name and the steps are required.
type JobSubmission struct {
	IdempotencyKey string               `json:"idempotencyKey,omitempty" minLength:"1" maxLength:"190" doc:"Makes the request safe to retry: the caller's key creates one job, for at least 30 days." example:"ci-4711-test"`
	Name           string               `json:"name,omitempty" maxLength:"100" doc:"Required to submit." example:"unit tests"`
	Repo           *jobRepo             `json:"repo,omitempty" doc:"The repository to check out before the first step."`
	Steps          []schema.JobStepSpec `json:"steps,omitempty" maxItems:"50" nullable:"false" doc:"Required to submit. Steps run in order until one fails."`
	Requires       *jobRequires         `json:"requires,omitempty"`
	Sandbox        *schema.JobSandbox   `json:"sandbox,omitempty"`
	Secrets        []string             `json:"secrets,omitempty" maxItems:"50" nullable:"false" doc:"Names of job secrets that the steps get as environment variables. Their values can total 512 KiB." example:"[\"NPM_TOKEN\"]"`
	Artifacts      []jobArtifactSpec    `json:"artifacts,omitempty" maxItems:"20" nullable:"false"`
	Priority       events.JobPriority   `json:"priority,omitempty" enum:"low,normal,high" doc:"Defaults to normal. Each level is worth an hour of waiting."`
	Timeouts       *jobTimeouts         `json:"timeouts,omitempty"`
	Retry          *jobRetry            `json:"retry,omitempty"`
	Concurrency    *jobConcurrency      `json:"concurrency,omitempty"`
	Annotations    map[string]string    `json:"annotations,omitempty" doc:"Free-form notes returned with the job." example:"{\"issue\": \"42\"}"`
}

// defaultCancelGrace is the cancelGraceSeconds of a job that does not set it.
const defaultCancelGrace = 30

// spec returns the submission as an unchecked event spec.
func (b *JobSubmission) spec() events.JobSpec {
	s := events.JobSpec{
		Name: b.Name, Secrets: b.Secrets, Priority: b.Priority, Annotations: b.Annotations,
		Timeouts: events.JobTimeouts{CancelGraceSeconds: defaultCancelGrace},
	}
	if b.Repo != nil {
		id, _ := events.ParseID(b.Repo.ID) // checked by submitJob
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
		s.Timeouts.IdleSeconds = t.IdleSeconds
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

// toCommand returns a [commands.SubmitJob] or a [commands.CancelJob].
func (in *jobRequest) toCommand(c *door.Caller, _ events.ID) (commands.Deniable, error) {
	b := &in.Body
	if b.Action == "cancel" {
		cancel := commands.CancelJob{Meta: c.Meta(), Reason: b.Reason, Grace: b.Grace, Token: c.Fingerprint}
		if !reflect.ValueOf(b.JobSubmission).IsZero() {
			return cancel, fault.Field("action", "must be submit if a field other than jobId, reason and graceSeconds is set")
		}
		id, err := events.ParseID(b.JobID)
		if err != nil {
			return cancel, cmp.Or(missingJob(b.JobID), error(farm.ErrNoJob))
		}
		cancel.Job = id
		return cancel, nil
	}
	submit := commands.SubmitJob{Meta: c.Meta(), Token: c.Fingerprint}
	submit.Spec.Name = b.Name
	if b.JobID != "" || b.Reason != "" || b.Grace != nil {
		return submit, fault.Field("action", "must be cancel if jobId, reason or graceSeconds is set")
	}
	if input.HasToken(b.IdempotencyKey) { // the key is stored
		return submit, fault.Field("idempotencyKey", "must not hold a service token")
	}
	if b.IdempotencyKey != "" {
		submit.Key = "job/" + b.IdempotencyKey
	}
	spec, err := farm.CheckJob(b.spec())
	submit.Spec = spec
	return submit, err
}

func missingJob(id string) error {
	if id == "" {
		return fault.Field("jobId", "is missing")
	}
	return nil
}

type jobAnswerBody struct {
	Job FarmJob `json:"job"`
}

type jobAnswer struct {
	Status   int
	Location string `header:"Location" doc:"The path of the new job."`
	Replayed string `header:"Idempotency-Replayed" doc:"true if the job was submitted before with this key."`
	schema.Position
	Body jobAnswerBody
}

func (s *Server) submitOrCancelJob(ctx context.Context, _ *jobRequest, cmd commands.Deniable) (*jobAnswer, error) {
	if cancel, ok := cmd.(commands.CancelJob); ok {
		return s.cancelJob(ctx, cancel)
	}
	return s.submitJob(ctx, cmd.(commands.SubmitJob))
}

func (s *Server) submitJob(ctx context.Context, submit commands.SubmitJob) (*jobAnswer, error) {
	var err error
	if submit.RepoName, err = s.Commands.JobRepo(ctx, submit.Workspace, submit.Spec); err != nil {
		return nil, err
	}
	submit.Job = events.NewID(s.Now())
	done, err := s.Commands.SubmitJob(ctx, submit)
	return s.showSubmitted(ctx, done, err, submit.Job)
}

// A jobRetrial asks for a job that has ended once more.
type jobRetrial struct {
	ID  string `path:"id" maxLength:"64" doc:"The id of a job that has ended."`
	Key string `header:"Idempotency-Key" maxLength:"190" doc:"As idempotencyKey of a submission: the caller's key creates one job, for at least 30 days." example:"ci-4711-again"`
}

func (in *jobRetrial) toCommand(c *door.Caller, id events.ID) (commands.RetryJob, error) {
	retry := commands.RetryJob{Meta: c.Meta(), Job: id, Token: c.Fingerprint}
	if input.HasToken(in.Key) { // the key is stored
		return retry, fault.Field("Idempotency-Key", "must not hold a service token")
	}
	if in.Key != "" {
		retry.Key = "job/" + in.Key
	}
	return retry, nil
}

func (s *Server) retryJob(ctx context.Context, _ *jobRetrial, retry commands.RetryJob) (*jobAnswer, error) {
	retry.New = events.NewID(s.Now())
	done, err := s.Commands.RetryJob(ctx, retry)
	return s.showSubmitted(ctx, done, err, retry.New)
}

// showSubmitted answers a command that submits a job under an id, or submitted another before.
func (s *Server) showSubmitted(ctx context.Context, done commands.Result, err error, id events.ID) (*jobAnswer, error) {
	if errors.Is(err, commands.ErrKeyReused) {
		err = errKeyConflict
	}
	if err != nil {
		return nil, err
	}
	if !done.Replayed {
		return s.showJob(ctx, done, id, http.StatusCreated)
	}
	var stored commands.JobAnswer
	if err := json.Unmarshal(done.Answer, &stored); err != nil {
		return nil, fmt.Errorf("decode stored answer: %w", err)
	}
	out, err := s.showJob(ctx, done, stored.Job, http.StatusOK)
	if err == nil {
		out.Replayed = "true"
	}
	return out, err
}

func (s *Server) cancelJob(ctx context.Context, cancel commands.CancelJob) (*jobAnswer, error) {
	done, err := s.Commands.CancelJob(ctx, cancel)
	if err != nil {
		return nil, err
	}
	out, err := s.showJob(ctx, done, cancel.Job, http.StatusAccepted)
	if err == nil && done.Idle && out.Body.Job.State.Final() {
		out.Status = http.StatusOK
	}
	return out, err
}

// showJob returns the answer to a command on a job.
func (s *Server) showJob(ctx context.Context, done commands.Result, id events.ID, status int) (*jobAnswer, error) {
	found, err := s.findJob(ctx, id.String())
	if err != nil {
		return nil, err
	}
	one, err := s.jobNow(ctx, found)
	if err != nil {
		return nil, err
	}
	out := &jobAnswer{Status: status, Position: schema.Position{Position: done.Position}, Body: jobAnswerBody{one}}
	if status == http.StatusCreated {
		out.Location = door.Prefix + "/farm/jobs/" + id.String()
	}
	return out, nil
}

// jobResponse describes a response with a job and a status other than the operation's usual one.
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
