package jobs

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates/farm"
	"svc/events"
	"svc/farm/queue"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
	"svc/projections/fold"
)

// maxJobBody bounds the body of a job's submission, in bytes.
const maxJobBody = 256 << 10

func (s *Server) jobRoutes() door.Section {
	return door.Section{Tag: "Build farm", Routes: []door.Route{
		door.Command((*jobRequest).toCommand, s.submitOrCancelJob, door.Route{
			Method: "POST", Path: "/farm/jobs", Guard: door.Guard{Scope: events.SubmitJobs, Right: events.RunJobs}, Farm: true,
			Limits: middleware.Limits{Body: maxJobBody},
			ID:     "submitJob", Summary: "Submit or cancel a job", Status: http.StatusCreated,
			Text: "Without `action`, or with `submit`, queues a job until a runner that meets its requirements takes it. It is not an error " +
				"if there is no such runner; `waitingReason` says so. A retry by the same caller with the same `idempotencyKey` and the same " +
				"job returns 200, the existing job and `Idempotency-Replayed: true`; with a different job it fails with 409 " +
				"`idempotency_conflict`. 429 `farm_queue_full` if the workspace has 10,000 queued jobs, if the caller has three times as many " +
				"as there are places left, or if the caller's queued jobs have 64 different requirements; 429 `farm_jobs_too_large` if " +
				"the specifications of all jobs that the workspace submitted within 24 hours exceed the limit, by default 1 GiB, or those " +
				"of the caller three quarters of it.\n\n" +
				"Steps have the variables `CI` (`true`), `SVC_JOB_ID`, `SVC_JOB_NAME` and `SVC_JOB_ATTEMPT`; with a `repo` also " +
				"`SVC_REPO` (its name), `SVC_COMMIT` (that is checked out) and `SVC_REF`; and `PATH`, `HOME`, `TMPDIR`, `LANG` and " +
				"`SVC_RUNNER_JOB` of the runner. Secrets, and `env` of a step, override all but the last.\n\n" +
				"With `cancel`, cancels the job `jobId`: 202. A queued job is cancelled at once. A running job is asked to end within its " +
				"`cancelGraceSeconds`, or the cancel's `graceSeconds`, and is cancelled 30 seconds after that whatever its runner does. " +
				"Another cancel with `graceSeconds` can shorten that time but not extend it; 0 kills the job. If the job has already " +
				"ended, it is unchanged and the status is 200.",
			Refuses: []*fault.Fault{
				farm.ErrNoJob, errKeyConflict, queue.ErrFull, queue.ErrTooLarge, fold.ErrNotCaughtUp,
			},
			RequestExample: exampleSubmission(), AnswerExample: jobAnswerBody{newJob(exampleQueuedJob(), jobWait{})},
			Responses: map[string]*huma.Response{
				"200": jobResponse("The job was already submitted with this key, or has already ended."),
				"202": jobResponse("The job is being cancelled or was cancelled."),
			},
		}),
		door.Command((*jobRetrial).toCommand, s.retryJob, door.Route{
			Method: "POST", Path: "/farm/jobs/{id}/retry", Guard: door.Guard{Scope: events.SubmitJobs, Right: events.RunJobs}, Farm: true,
			ID: "retryJob", Summary: "Retry a job", Status: http.StatusCreated,
			Text: "Submits a job that has ended once more, as a new job with the same spec and the same commit, whose `retryOf` names it. " +
				"The rules of submissions apply: a secret or repository that is gone since fails with 422. A repetition with the same " +
				"`Idempotency-Key` returns 200, the existing job and `Idempotency-Replayed: true`. 409 `farm_job_active` if the " +
				"job has not ended, 409 `farm_job_of_run` if it belongs to a run.",
			Missing: farm.ErrNoJob,
			Refuses: []*fault.Fault{
				farm.ErrJobGoesOn, farm.ErrJobOfRun, errKeyConflict, queue.ErrFull, queue.ErrTooLarge, fold.ErrNotCaughtUp,
			},
			AnswerExample: exampleRetry(),
			Responses:     map[string]*huma.Response{"200": jobResponse("The job was already submitted with this key.")},
		}),
		door.Query(s.listJobs, door.Route{
			Method: "GET", Path: "/farm/jobs", Guard: door.AnyMemberOrReadToken, Farm: true,
			ID: "listJobs", Summary: "List jobs",
			Text: "Lists all jobs, newest first; only queued and running ones with `status=active`; or finished ones, most recently " +
				"finished first, with `status=terminal`. With `name`, `repo` or `runner`, jobs are ordered by submission, newest first.",
			AnswerExample: schema.NewList([]farmviews.Job{exampleQueuedJob()}, 1, schema.ExamplePage,
				func(j farmviews.Job) FarmJob { return newJob(j, jobWait{}) }),
		}),
		door.Query(s.getJob, door.Route{
			Method: "GET", Path: "/farm/jobs/{id}", Guard: door.AnyMemberOrReadToken, Farm: true,
			ID: "getJob", Summary: "Get a job",
			Text:          "Returns a job with its spec, steps and attempts. A job of another workspace is not found: 404 `farm_job_not_found`.",
			Refuses:       []*fault.Fault{farm.ErrNoJob},
			AnswerExample: exampleJobDetail(),
		}),
		door.Query(s.listJobEvents, door.Route{
			Method: "GET", Path: "/farm/jobs/{id}/events", Guard: door.AnyMemberOrReadToken, Farm: true,
			ID: "listJobEvents", Summary: "List the events of a job",
			Text: "Lists the stored events of a job, oldest first. `nextCursor` is always present; use it to get later events, including " +
				"those that have not happened yet.",
			Refuses:       []*fault.Fault{farm.ErrNoJob},
			AnswerExample: exampleJobEvents(),
		}),
	}}
}

type jobsQuery struct {
	Status string `query:"status" enum:"active,terminal" doc:"active: queued and running jobs. terminal: finished jobs. By default all jobs."`
	State  string `query:"state" enum:"queued,leased,running,cancelling,succeeded,failed,cancelled,timed_out,lost,expired" doc:"Only jobs in this state."`
	Name   string `query:"name" maxLength:"100" doc:"Only jobs of exactly this name."`
	Repo   string `query:"repo" format:"uuid" doc:"Only jobs of this repository."`
	Runner string `query:"runner" format:"uuid" doc:"Only jobs whose current or last runner is this one."`
	Q      string `query:"q" maxLength:"200" doc:"Only jobs whose name or repository name contains this text, ignoring case and accents. With any filter, only the first 10,000 jobs of the list are searched and counted."`
	schema.Paging
}

func (q *jobsQuery) query(workspace events.ID) (farmviews.JobQuery, error) {
	out := farmviews.JobQuery{
		Workspace: workspace, All: q.Status == "", Active: q.Status == "active", State: events.JobState(q.State), Name: q.Name,
		Q: q.Q, Limit: q.Limit, Offset: q.Offset,
	}
	for field, text := range map[string]string{"repo": q.Repo, "runner": q.Runner} {
		if text == "" {
			continue
		}
		id, err := events.ParseID(text)
		switch {
		case err != nil:
			return out, fault.Field(field, "must be an id")
		case field == "repo":
			out.Repo = &id
		default:
			out.Runner = &id
		}
	}
	return out, nil
}

type jobsAnswer struct{ Body schema.List[FarmJob] }

func (s *Server) listJobs(ctx context.Context, in *jobsQuery) (*jobsAnswer, error) {
	q, err := in.query(door.CallerOf(ctx).Workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := s.Jobs.Page(ctx, q)
	if err != nil {
		return nil, err
	}
	waits, err := s.Jobs.Waits(ctx, q.Workspace, found, s.Now())
	if err != nil {
		return nil, err
	}
	live, err := s.liveJobs(ctx, q.Workspace, found)
	if err != nil {
		return nil, err
	}
	out := &jobsAnswer{schema.NewList(found, total, in.Paging, func(j farmviews.Job) FarmJob {
		one := newJob(redactJob(door.CallerOf(ctx), j), jobWaitOf(waits, j, nil))
		live[j.ID].addTo(&one)
		return one
	})}
	return out, door.AddNames(ctx, s.Door, out.Body.Items, (*FarmJob).names)
}

type jobPath struct {
	ID string `path:"id" maxLength:"64" doc:"The job's id."`
}

// findJob returns the job that a path names, in the caller's workspace.
func (s *Server) findJob(ctx context.Context, id string) (farmviews.Job, error) {
	return door.FindInPath(ctx, id, farm.ErrNoJob, s.Jobs.Get)
}

type jobDetailAnswer struct{ Body jobDetail }

func (s *Server) getJob(ctx context.Context, in *jobPath) (*jobDetailAnswer, error) {
	found, err := s.findJob(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	spec, ok, err := s.Jobs.Spec(ctx, found.Workspace, found.ID)
	if err := door.CheckFound(ok, err, farm.ErrNoJob); err != nil {
		return nil, err
	}
	one, err := s.jobNow(ctx, found)
	if err != nil {
		return nil, err
	}
	out := newJobDetail(one, found, spec)
	live, err := s.liveJobs(ctx, found.Workspace, []farmviews.Job{found})
	if err != nil {
		return nil, err
	}
	live[found.ID].addToDetail(&out)
	return &jobDetailAnswer{out}, nil
}

// jobNow returns a job with, if it is queued, the reason why it waits and its position.
func (s *Server) jobNow(ctx context.Context, j farmviews.Job) (FarmJob, error) {
	redacted := redactJob(door.CallerOf(ctx), j)
	if j.State != events.JobStateQueued {
		return door.WithNames(ctx, s.Door, newJob(redacted, jobWait{}), (*FarmJob).names)
	}
	waits, err := s.Jobs.Waits(ctx, j.Workspace, []farmviews.Job{j}, s.Now())
	if err != nil {
		return FarmJob{}, err
	}
	position, err := s.Jobs.Position(ctx, j)
	if err != nil {
		return FarmJob{}, err
	}
	return door.WithNames(ctx, s.Door, newJob(redacted, jobWaitOf(waits, j, &position)), (*FarmJob).names)
}

type jobEventsQuery struct {
	ID     string `path:"id" maxLength:"64" doc:"The job's id."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"25"`
	Cursor string `query:"cursor" maxLength:"20" doc:"The nextCursor of the previous page."`
}

type jobEventsBody struct {
	Items      []schema.EventRecord `json:"items" nullable:"false"`
	NextCursor string               `json:"nextCursor" doc:"Cursor of later events, including those that have not happened yet." example:"7"`
}

type jobEventsAnswer struct{ Body jobEventsBody }

func (s *Server) listJobEvents(ctx context.Context, in *jobEventsQuery) (*jobEventsAnswer, error) {
	after := 0
	if in.Cursor != "" {
		var err error
		if after, err = schema.ParseVersion(in.Cursor, 1, 0, "must be the nextCursor of an answer"); err != nil {
			return nil, err
		}
	}
	job, err := s.findJob(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list, err := s.Jobs.Events(ctx, job.Workspace, job.ID, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &jobEventsAnswer{newJobEvents(list, after)}
	for i := range out.Body.Items {
		out.Body.Items[i].Actor = door.CallerOf(ctx).RedactActor(out.Body.Items[i].Actor)
	}
	return out, nil
}

func newJobEvents(list []events.Record, after int) jobEventsBody {
	if len(list) > 0 {
		after = list[len(list)-1].Version
	}
	return jobEventsBody{schema.NewEventRecords(list), strconv.Itoa(after)}
}

// ExampleJobID is the id of the example job: a queued one, and the same after it has run.
var ExampleJobID, exampleRunnerID = schema.ExampleNo(60), schema.ExampleNo(61)

func exampleSubmission() schema.Object {
	return schema.Object{
		"idempotencyKey": "ci-4711-test", "name": "unit tests",
		"repo":     schema.Object{"id": schema.ExampleRepo.ID, "commit": schema.ExampleHead},
		"steps":    []schema.Object{{"name": "test", "run": "go test ./...", "env": schema.Object{"CI": "true"}}},
		"requires": schema.Object{"labels": []string{"os=linux"}},
		"sandbox":  schema.Object{"kind": "bubblewrap", "memoryMiB": 4096},
		"retry":    schema.Object{"maxAttempts": 2},
	}
}

func exampleJobSpec() events.JobSpec {
	spec, err := farm.CheckJob(events.JobSpec{
		Name: "unit tests", Repo: &events.JobRepo{ID: schema.ExampleRepo.ID, Name: schema.ExampleRepo.Name, Commit: schema.ExampleHead},
		Steps:    []events.JobStep{{Name: "test", Run: "go test ./...", Env: map[string]string{"CI": "true"}}},
		Requires: events.JobRequires{Labels: []string{"os=linux"}}, Sandbox: events.JobSandbox{MemoryMiB: 4096},
		Retry: events.JobRetry{MaxAttempts: 2}, Timeouts: events.JobTimeouts{CancelGraceSeconds: defaultCancelGrace},
	})
	if err != nil {
		panic(err)
	}
	return spec
}

func exampleQueuedJob() farmviews.Job {
	return farmviews.Job{
		ID: ExampleJobID, Name: "unit tests", State: events.JobStateQueued, Repo: &schema.ExampleRepo.ID, RepoName: schema.ExampleRepo.Name,
		Priority: "normal", MaxAttempts: 2, SubmittedBy: events.Actor{Type: events.ByService, Name: "service:ci-bot"},
		SubmittedAt: schema.ExampleAt(10), QueuedAt: schema.ExampleAt(10), NotBefore: schema.ExampleAt(10),
		ExpiresAt: schema.ExampleAt(10).Add(24 * time.Hour),
		Artifacts: farmviews.JobArtifacts{State: "none"},
	}
}

func exampleRetry() jobAnswerBody {
	j := exampleQueuedJob()
	j.ID, j.RetryOf = schema.ExampleNo(63), &ExampleJobID
	return jobAnswerBody{newJob(j, jobWait{})}
}

func exampleJobDetail() jobDetail {
	j, code := exampleQueuedJob(), 0
	j.State, j.Epoch, j.Attempt, j.Runner, j.RunnerName = events.JobStateSucceeded, 1, 1, &exampleRunnerID, "builder-1"
	j.StartedAt, j.FinishedAt = new(schema.ExampleAt(9)), new(schema.ExampleAt(7))
	j.Outcome = &farmviews.JobOutcome{Reported: "succeeded", ExitCode: &code, CPUMs: 64_100, MaxRSSBytes: 512_000_000}
	j.Artifacts.LeftOut, j.Artifacts.LeftOutCount = []farmviews.JobLeftOut{{Path: "dist/current", Reason: "link_outside"}}, 1
	j.Attempts = []farmviews.JobAttempt{{
		Epoch: 1, Attempt: 1, Runner: exampleRunnerID, RunnerName: "builder-1", LeasedAt: schema.ExampleAt(10), StartedAt: j.StartedAt,
		EndedAt: j.FinishedAt, Ended: "succeeded",
		Steps: []farmviews.JobStep{{Status: "succeeded", StartedAt: j.StartedAt, FinishedAt: j.FinishedAt, ExitCode: &code}},
		Log:   &farmviews.JobLog{Bytes: 18_233, Chunks: 9, Integrity: "verified"},
	}}
	return newJobDetail(newJob(j, jobWait{}), j, exampleJobSpec())
}

func exampleJobEvents() jobEventsBody {
	e := events.JobLeased{Epoch: 1, Attempt: 1, Runner: exampleRunnerID, RunnerName: "builder-1", AcceptBy: schema.ExampleAt(9)}
	data, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return newJobEvents([]events.Record{{
		ID: schema.ExampleNo(62), Seq: 4181, Version: 2, At: schema.ExampleAt(10), Event: e, Data: data,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}},
	}}, 1)
}
