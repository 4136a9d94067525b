package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/projections"
	"svc/projections/fold"
)

// jobBody is how many bytes the request for a job may have.
const jobBody = 256 << 10

func (s *Server) jobRoutes() section {
	return section{tag: "Build farm", about: aboutFarm, routes: []route{
		command((*jobRequest).command, s.askJob, route{
			method: "POST", path: "/farm/jobs", guard: guard{scope: events.SubmitJobs, right: events.RunJobs}, farm: true,
			limits: middleware.Limits{Body: jobBody},
			id:     "submitJob", summary: "Submit or cancel a job", status: http.StatusCreated,
			text: "Without `action`, or with `submit`, asks for a job, which waits until a runner that has what it requires takes it. " +
				"That there is none today is no error: the job says so in `waitingReason`. The same `idempotencyKey` and the same job " +
				"again, by the same caller, is answered 200 with the job of then and `Idempotency-Replayed: true`; with another job " +
				"409 `idempotency_conflict`.\n\nWith `cancel`, ends the job `jobId`: at once while it waits; one that runs is told to " +
				"end, has the seconds of `cancelGraceSeconds` for that, or those of the cancel's `graceSeconds`, and counts as cancelled " +
				"30 seconds after those whatever its runner does. Another cancel with `graceSeconds` leaves it less time, never more: 0 kills " +
				"it now. The answer is 202, and 200 if the job has ended already, which stays as it is. 429 `farm_queue_full` if " +
				"10,000 jobs of the workspace wait, if those of the caller are three times as many as there are places left, " +
				"or if they ask for 64 different things.",
			refuses: []*fault.Fault{
				aggregates.ErrNoJob, errIdempotency, errQueueFull, fold.ErrNotCaughtUp,
			},
			sent: exampleSubmission(), answered: jobAnswerBody{newJob(exampleQueuedJob(), "", nil)},
			responses: map[string]*huma.Response{
				"200": jobResponse("The job as it is: it was submitted before with this key, or has ended."),
				"202": jobResponse("The job is being cancelled, or has been."),
			},
		}),
		query(s.listJobs, route{
			method: "GET", path: "/farm/jobs", guard: readers, farm: true,
			id: "listJobs", summary: "List jobs",
			text: "Jobs that wait or run (`status=active`), the newest first, or jobs that have ended (`status=terminal`), the one that " +
				"ended last first; of one repository or runner in the order in which they were submitted.",
			answered: newList([]projections.Job{exampleQueuedJob()}, 1, examplePage, func(j projections.Job) FarmJob { return newJob(j, "", nil) }),
		}),
		query(s.getJob, route{
			method: "GET", path: "/farm/jobs/{id}", guard: readers, farm: true,
			id: "getJob", summary: "Get a job",
			text: "One job with what was asked for, its steps and every attempt. A job of another workspace is answered like one that " +
				"does not exist: 404 `farm_job_not_found`.",
			refuses:  []*fault.Fault{aggregates.ErrNoJob},
			answered: exampleJobDetail(),
		}),
		query(s.listJobEvents, route{
			method: "GET", path: "/farm/jobs/{id}/events", guard: readers, farm: true,
			id: "listJobEvents", summary: "List what happened to a job",
			text: "The events of a job, the oldest first, as they are stored. `nextCursor` leads to later ones, also to those that have not " +
				"happened yet: it is always there.",
			refuses:  []*fault.Fault{aggregates.ErrNoJob},
			answered: exampleJobEvents(),
		}),
	}}
}

type jobsQuery struct {
	Status string `query:"status" required:"true" enum:"active,terminal" doc:"active: jobs that wait or run. terminal: jobs that have ended."`
	State  string `query:"state" enum:"queued,leased,running,cancelling,succeeded,failed,cancelled,timed_out,lost,expired" doc:"Only jobs of this state."`
	Repo   string `query:"repo" format:"uuid" doc:"Only jobs of this repository."`
	Runner string `query:"runner" format:"uuid" doc:"Only jobs that this runner has, or had last."`
	Q      string `query:"q" maxLength:"200" doc:"Only jobs with this in their name or that of their repository, in any case. With any filter the first 10,000 jobs of the list are looked through and counted."`
	Paging
}

func (q *jobsQuery) of(workspace events.ID) (projections.JobQuery, error) {
	asked := projections.JobQuery{
		Workspace: workspace, Active: q.Status == "active", State: events.JobState(q.State), Q: q.Q, Limit: q.Limit, Offset: q.Offset,
	}
	for field, text := range map[string]string{"repo": q.Repo, "runner": q.Runner} {
		if text == "" {
			continue
		}
		id, err := events.ParseID(text)
		switch {
		case err != nil:
			return asked, invalid(field, "must be an id")
		case field == "repo":
			asked.Repo = &id
		default:
			asked.Runner = &id
		}
	}
	return asked, nil
}

type jobsAnswer struct{ Body List[FarmJob] }

func (s *Server) listJobs(ctx context.Context, in *jobsQuery) (*jobsAnswer, error) {
	q, err := in.of(callerOf(ctx).workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := s.views.Jobs.Page(ctx, q)
	if err != nil {
		return nil, err
	}
	waits, err := s.views.Jobs.Waits(ctx, q.Workspace, found, s.now())
	if err != nil {
		return nil, err
	}
	live, err := s.liveJobs(ctx, q.Workspace, found)
	if err != nil {
		return nil, err
	}
	return &jobsAnswer{newList(found, total, in.Paging, func(j projections.Job) FarmJob {
		one := newJob(j, waits.Reason(j), nil)
		live[j.ID].of(&one)
		return one
	})}, nil
}

type jobPath struct {
	ID string `path:"id" maxLength:"64" doc:"The job's id."`
}

// find returns the job that a path names, in the caller's workspace.
func (s *Server) findJob(ctx context.Context, id string) (projections.Job, error) {
	job, err := events.ParseID(id)
	if err != nil {
		return projections.Job{}, aggregates.ErrNoJob
	}
	found, ok, err := s.views.Jobs.Get(ctx, callerOf(ctx).workspace, job)
	if err == nil && !ok {
		err = aggregates.ErrNoJob
	}
	return found, err
}

type jobDetailAnswer struct{ Body jobDetail }

func (s *Server) getJob(ctx context.Context, in *jobPath) (*jobDetailAnswer, error) {
	found, err := s.findJob(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	spec, ok, err := s.views.Jobs.Spec(ctx, found.Workspace, found.ID)
	if err == nil && !ok {
		err = aggregates.ErrNoJob
	}
	if err != nil {
		return nil, err
	}
	one, err := s.jobNow(ctx, found)
	if err != nil {
		return nil, err
	}
	out := newJobDetail(one, found, spec)
	live, err := s.liveJobs(ctx, found.Workspace, []projections.Job{found})
	if err != nil {
		return nil, err
	}
	live[found.ID].of(&out.FarmJob)
	if out.Usage == nil {
		out.Usage = live[found.ID].usage
	}
	return &jobDetailAnswer{out}, nil
}

// jobNow is a job with why it waits, and where in the queue.
func (s *Server) jobNow(ctx context.Context, j projections.Job) (FarmJob, error) {
	if j.State != events.JobQueued {
		return newJob(j, "", nil), nil
	}
	waits, err := s.views.Jobs.Waits(ctx, j.Workspace, []projections.Job{j}, s.now())
	if err != nil {
		return FarmJob{}, err
	}
	position, err := s.views.Jobs.Position(ctx, j)
	if err != nil {
		return FarmJob{}, err
	}
	return newJob(j, waits.Reason(j), &position), nil
}
