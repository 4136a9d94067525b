package rest

import (
	"context"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/projections"
)

func (s *Server) runnerRoutes() section {
	draining, revoked := exampleRunner, exampleRunner
	draining.State, draining.Draining, draining.Note = events.RunnerIsDraining, true, "A new disk."
	draining.NotedBy = exampleAda.Name
	revoked.NotedBy, revoked.Note = exampleAda.Name, "The machine was sold."
	revoked.State, revoked.Jobs, revoked.ChangedAt = events.RunnerIsRevoked, []projections.RunnerJob{}, exampleAt(0)
	return section{tag: "Build farm", routes: []route{
		query(s.listRunners, route{
			method: "GET", path: "/farm/runners", guard: readers, farm: true,
			id: "listRunners", summary: "List runners",
			text: "The build machines by name, those that are suspended, revoked or retired last. `slots` counts the jobs that all connected " +
				"machines can run at once and those that they do run, and the machines, whatever the list is narrowed to.",
			answered: runnerList{
				newList([]projections.Runner{exampleRunner}, 1, examplePage, newRunner),
				newSlots(projections.RunnerSlots{Online: 1, Offline: 1, Total: 2, Busy: 1}),
			},
		}),
		query(s.getRunner, route{
			method: "GET", path: "/farm/runners/{id}", guard: readers, farm: true,
			id: "getRunner", summary: "Get a runner",
			text:     "One build machine. One of another workspace is answered like one that does not exist: 404 `runner_not_found`.",
			refuses:  []*fault.Fault{aggregates.ErrNoRunner},
			answered: newRunner(exampleRunner),
		}),
		command((*runnerNote).drain, s.drainRunner, route{
			method: "POST", path: "/farm/runners/{id}/drain", guard: mayDo(events.ManageRunners), farm: true,
			id: "drainRunner", summary: "Drain a runner",
			text:     "The runner takes no more jobs, and finishes those that it has. Nothing changes if it is being drained already.",
			missing:  aggregates.ErrNoRunner,
			refuses:  []*fault.Fault{aggregates.ErrRunnerOver},
			sent:     object{"note": draining.Note},
			answered: newRunner(draining),
		}),
		command((*RunnerPath).resume, s.resumeRunner, route{
			method: "POST", path: "/farm/runners/{id}/resume", guard: mayDo(events.ManageRunners), farm: true,
			id: "resumeRunner", summary: "Resume a runner",
			text:     "The runner takes jobs again. Nothing changes if it is not drained.",
			missing:  aggregates.ErrNoRunner,
			refuses:  []*fault.Fault{aggregates.ErrRunnerOver},
			answered: newRunner(exampleRunner),
		}),
		command((*runnerNote).revoke, s.revokeRunner, route{
			method: "POST", path: "/farm/runners/{id}/revoke", guard: mayDo(events.ManageRunners), farm: true,
			id: "revokeRunner", summary: "Revoke a runner",
			text:     "Ends the runner, its connection and its certificates, at once and for good. The jobs that it has go to others.",
			missing:  aggregates.ErrNoRunner,
			sent:     object{"note": "The machine was sold."},
			answered: newRunner(revoked),
		}),
	}}
}

type runner struct {
	ID              string               `json:"id" format:"uuid"`
	Name            string               `json:"name" example:"builder-1"`
	State           events.RunnerState   `json:"state" enum:"enrolled,online,offline,draining,suspended,revoked,retired"`
	Draining        bool                 `json:"draining" doc:"It takes no more jobs, connected or not."`
	Note            string               `json:"note" doc:"Of who drained or revoked it."`
	NotedBy         string               `json:"notedBy" doc:"Who drained or revoked it; empty if nobody has."`
	OfflineReason   events.OfflineReason `json:"offlineReason" enum:",no_certificate,certificate_invalid,disconnected,drained,version_too_old" doc:"Why it was not heard of any more; empty while it is."`
	Labels          []string             `json:"labels" nullable:"false" example:"[\"arch=amd64\",\"os=linux\",\"pool=default\",\"runner=builder-1\"]"`
	ExclusiveLabels []string             `json:"exclusiveLabels" nullable:"false" doc:"A job has to ask for each of these." example:"[]"`
	Slots           int                  `json:"slots" doc:"Jobs that it runs at once." example:"2"`
	Busy            int                  `json:"busy" doc:"Jobs that it has."`
	JobsLeft        *int                 `json:"jobsLeft" nullable:"true" doc:"How many more it takes before it retires; null is any number."`
	Jobs            []runnerJob          `json:"jobs" nullable:"false" doc:"That it has."`
	Version         string               `json:"version" example:"0.4.0"`
	OS              string               `json:"os" example:"linux"`
	Arch            string               `json:"arch" example:"amd64"`
	Sandboxes       []string             `json:"sandboxes" nullable:"false" example:"[\"none\",\"bubblewrap\"]"`
	CertifiedUntil  timestamp            `json:"certifiedUntil" doc:"When its certificate ends. The agent renews it in time."`
	EnrolledAt      timestamp            `json:"enrolledAt"`
	StateSince      timestamp            `json:"stateSince"`
	LastHeartbeatAt *timestamp           `json:"lastHeartbeatAt" nullable:"true" doc:"null if it has never connected."`
	Declines        *runnerDeclines      `json:"declines" doc:"Jobs in a row that it was given and gave back: null if it took the last one."`
}

type runnerDeclines struct {
	_          struct{}   `nullable:"true"`
	Count      int        `json:"count" example:"4"`
	Reason     string     `json:"reason" enum:"busy,unsupported,disk_full,draining,no_answer,other" doc:"Of the last of them."`
	RestsUntil *timestamp `json:"restsUntil" nullable:"true" doc:"It is given no job before; null if it gave back few."`
}

func newDeclines(r projections.Runner) *runnerDeclines {
	if r.Declined == 0 {
		return nil
	}
	return &runnerDeclines{Count: r.Declined, Reason: r.DeclineReason, RestsUntil: optional(r.RestsUntil)}
}

type runnerJob struct {
	ID        string          `json:"id" format:"uuid"`
	Name      string          `json:"name" example:"unit tests"`
	State     events.JobState `json:"state" enum:"leased,running,cancelling"`
	StartedAt *timestamp      `json:"startedAt" nullable:"true"`
}

func newRunner(r projections.Runner) runner {
	jobs := make([]runnerJob, 0, len(r.Jobs))
	for _, j := range r.Jobs {
		jobs = append(jobs, runnerJob{j.ID.String(), j.Name, j.State, optional(j.StartedAt)})
	}
	return runner{
		ID: r.ID.String(), Name: r.Name, State: r.State, Draining: r.Draining, Note: r.Note, NotedBy: r.NotedBy, OfflineReason: r.OfflineReason,
		Labels: r.Labels, ExclusiveLabels: r.ExclusiveLabels, Slots: r.Capacity, Busy: len(jobs), JobsLeft: r.JobsLeft, Jobs: jobs,
		Version: r.Version, OS: r.OS, Arch: r.Arch, Sandboxes: r.Sandboxes,
		CertifiedUntil: at(r.NotAfter), EnrolledAt: at(r.EnrolledAt), StateSince: at(r.ChangedAt), LastHeartbeatAt: optional(r.SeenAt),
		Declines: newDeclines(r),
	}
}

type slots struct {
	Online   int `json:"online" doc:"Machines that are connected and take jobs."`
	Draining int `json:"draining" doc:"Machines that are connected and take no more."`
	Offline  int `json:"offline" doc:"Machines that are not connected, and may be again."`
	Total    int `json:"total" doc:"Jobs that those which take jobs can run at once."`
	Busy     int `json:"busy" doc:"Jobs that machines have."`
}

func newSlots(s projections.RunnerSlots) slots { return slots(s) }

type runnerList struct {
	List[runner]
	Slots slots `json:"slots"`
}

type runnersQuery struct {
	Paging
	Status string `query:"status" enum:"online,offline,ended" doc:"online: those that are connected, also those that are being drained. offline: those that may connect again. ended: those that are suspended, revoked or retired. Without it all."`
}

type runnersAnswer struct{ Body runnerList }

func (s *Server) listRunners(ctx context.Context, in *runnersQuery) (*runnersAnswer, error) {
	workspace := callerOf(ctx).workspace
	found, total, err := s.views.Runners.Page(ctx, workspace, projections.RunnerStatus(in.Status), in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	all, err := s.views.Runners.Slots(ctx, workspace)
	if err != nil {
		return nil, err
	}
	return &runnersAnswer{runnerList{newList(found, total, in.Paging, newRunner), newSlots(all)}}, nil
}

// A RunnerPath names a runner.
type RunnerPath struct {
	ID string `path:"id" maxLength:"64" doc:"The runner's id."`
}

func (s *Server) getRunner(ctx context.Context, in *RunnerPath) (*struct{ Body runner }, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoRunner
	}
	r, err := s.runner(ctx, id)
	return &struct{ Body runner }{r}, err
}

func (s *Server) runner(ctx context.Context, id events.ID) (runner, error) {
	r, ok, err := s.views.Runners.Get(ctx, callerOf(ctx).workspace, id)
	switch {
	case err != nil:
		return runner{}, err
	case !ok:
		return runner{}, aggregates.ErrNoRunner
	}
	return newRunner(r), nil
}

type runnerNote struct {
	ID   string `path:"id" maxLength:"64" doc:"The runner's id."`
	Body *struct {
		Note string `json:"note,omitempty" maxLength:"500" doc:"Why, for others and the audit log." example:"A new disk."`
	}
}

func (in *runnerNote) note() string {
	if in.Body == nil {
		return ""
	}
	return in.Body.Note
}

type runnerAnswer struct {
	Position
	Body runner
}

func (in *runnerNote) drain(c *caller, id events.ID) (commands.DrainRunner, error) {
	return commands.DrainRunner{Meta: c.meta(), Runner: id, Note: in.note()}, nil
}

func (s *Server) drainRunner(ctx context.Context, _ *runnerNote, drain commands.DrainRunner) (*runnerAnswer, error) {
	done, err := s.commands.DrainRunner(ctx, drain)
	return s.changedRunner(ctx, done, err, drain.Runner)
}

func (in *RunnerPath) resume(c *caller, id events.ID) (commands.ResumeRunner, error) {
	return commands.ResumeRunner{Meta: c.meta(), Runner: id}, nil
}

func (s *Server) resumeRunner(ctx context.Context, _ *RunnerPath, resume commands.ResumeRunner) (*runnerAnswer, error) {
	done, err := s.commands.ResumeRunner(ctx, resume)
	return s.changedRunner(ctx, done, err, resume.Runner)
}

func (in *runnerNote) revoke(c *caller, id events.ID) (commands.RevokeRunner, error) {
	return commands.RevokeRunner{Meta: c.meta(), Runner: id, Note: in.note()}, nil
}

func (s *Server) revokeRunner(ctx context.Context, _ *runnerNote, revoke commands.RevokeRunner) (*runnerAnswer, error) {
	done, err := s.commands.RevokeRunner(ctx, revoke)
	return s.changedRunner(ctx, done, err, revoke.Runner)
}

func (s *Server) changedRunner(ctx context.Context, done commands.Result, err error, id events.ID) (*runnerAnswer, error) {
	if err != nil {
		return nil, err
	}
	r, err := s.runner(ctx, id)
	return &runnerAnswer{Position{done.Position}, r}, err
}

var exampleRunner = projections.Runner{
	ID: exampleNo(22), Name: "builder-1", State: events.RunnerIsOnline, ExclusiveLabels: []string{},
	Labels: []string{"arch=amd64", "os=linux", "pool=default", "runner=builder-1"}, Capacity: 2,
	Version: "0.4.0", OS: "linux", Arch: "amd64", Sandboxes: []string{"none", "bubblewrap"},
	Jobs:     []projections.RunnerJob{{ID: exampleNo(23), Name: "unit tests", State: events.JobRunning, StartedAt: new(exampleAt(1))}},
	NotAfter: exampleAt(0).Add(7 * 24 * time.Hour), EnrolledAt: exampleAt(60), ChangedAt: exampleAt(59), SeenAt: new(exampleAt(0)),
}
