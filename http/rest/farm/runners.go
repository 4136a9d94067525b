package farm

import (
	"context"
	"time"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/farmviews"
)

func (s *Server) runnerRoutes() door.Section {
	draining, revoked := ExampleRunner, ExampleRunner
	draining.State, draining.Draining, draining.Note = events.RunnerStateDraining, true, "A new disk."
	draining.NotedBy = schema.ExampleAda.Name
	revoked.NotedBy, revoked.Note = schema.ExampleAda.Name, "The machine was sold."
	revoked.State, revoked.Jobs, revoked.ChangedAt = events.RunnerStateRevoked, []farmviews.RunnerJob{}, schema.ExampleAt(0)
	return door.Section{Tag: "Build farm", Routes: []door.Route{
		door.Query(s.listRunners, door.Route{
			Method: "GET", Path: "/farm/runners", Guard: door.AnyMemberOrReadToken, Farm: true,
			ID: "listRunners", Summary: "List runners",
			Text: "Lists runners by name; suspended, revoked and retired ones come last. `slots` counts all runners, the jobs that connected " +
				"ones can run at once, and the jobs that they run, whatever the filter.",
			AnswerExample: runnerList{
				schema.NewList([]farmviews.Runner{ExampleRunner}, 1, schema.ExamplePage, newRunner),
				newSlots(farmviews.RunnerSlots{Online: 1, Offline: 1, Total: 2, Busy: 1}),
			},
		}),
		door.Query(s.getRunner, door.Route{
			Method: "GET", Path: "/farm/runners/{id}", Guard: door.AnyMemberOrReadToken, Farm: true,
			ID: "getRunner", Summary: "Get a runner",
			Text:          "Returns a runner. A runner of another workspace is not found: 404 `runner_not_found`.",
			Refuses:       []*fault.Fault{farm.ErrNoRunner},
			AnswerExample: newRunner(ExampleRunner),
		}),
		door.Command((*runnerNote).drain, s.drainRunner, door.Route{
			Method: "POST", Path: "/farm/runners/{id}/drain", Guard: door.MayDo(events.ManageRunners), Farm: true,
			ID: "drainRunner", Summary: "Drain a runner",
			Text: "The runner accepts no new jobs and finishes its current ones. If it is already being drained, only a new note " +
				"has an effect.",
			Missing:        farm.ErrNoRunner,
			Refuses:        []*fault.Fault{farm.ErrRunnerOver},
			RequestExample: schema.Object{"note": draining.Note},
			AnswerExample:  newRunner(draining),
		}),
		door.Command((*RunnerPath).resume, s.resumeRunner, door.Route{
			Method: "POST", Path: "/farm/runners/{id}/resume", Guard: door.MayDo(events.ManageRunners), Farm: true,
			ID: "resumeRunner", Summary: "Resume a runner",
			Text:          "The runner accepts jobs again. No effect if it is not being drained.",
			Missing:       farm.ErrNoRunner,
			Refuses:       []*fault.Fault{farm.ErrRunnerOver},
			AnswerExample: newRunner(ExampleRunner),
		}),
		door.Command((*runnerNote).revoke, s.revokeRunner, door.Route{
			Method: "POST", Path: "/farm/runners/{id}/revoke", Guard: door.MayDo(events.ManageRunners), Farm: true,
			ID: "revokeRunner", Summary: "Revoke a runner",
			Text:           "Permanently ends the runner, its connection and its certificates, at once. Its jobs are reassigned to other runners.",
			Missing:        farm.ErrNoRunner,
			RequestExample: schema.Object{"note": "The machine was sold."},
			AnswerExample:  newRunner(revoked),
		}),
	}}
}

type runner struct {
	ID              string               `json:"id" format:"uuid"`
	Name            string               `json:"name" example:"builder-1"`
	State           events.RunnerState   `json:"state" enum:"enrolled,online,offline,draining,suspended,revoked,retired"`
	Draining        bool                 `json:"draining" doc:"Whether it accepts no new jobs, connected or not."`
	DrainsItself    bool                 `json:"drainsItself" doc:"Whether it is draining because its machine asked for it, by svc-runner drain or by being stopped. Only the machine can end that."`
	Note            string               `json:"note" doc:"The note of the person who drained or revoked it."`
	NotedBy         string               `json:"notedBy" doc:"The person who drained or revoked it; empty if nobody did, and for service accounts."`
	NoterName       string               `json:"notedByName,omitempty" doc:"Name of the person who has this address now." example:"Ada Lind"`
	OfflineReason   events.OfflineReason `json:"offlineReason" enum:",no_certificate,certificate_invalid,disconnected,drained" doc:"Why it is offline; empty while it is connected. no_certificate: it did not connect within 30 seconds of its enrollment. certificate_invalid: its certificate has expired."`
	Labels          []string             `json:"labels" nullable:"false" doc:"Those of its enrollment, those that the service sets (os, arch, sandbox and runner), and those that its machine gives itself, which begin with machine:." example:"[\"arch=amd64\",\"os=linux\",\"pool=default\",\"runner=builder-1\"]"`
	ExclusiveLabels []string             `json:"exclusiveLabels" nullable:"false" doc:"Labels that a job must require, all of them, to run here." example:"[]"`
	Slots           int                  `json:"slots" doc:"Maximum number of jobs that it runs at once." example:"2"`
	Busy            int                  `json:"busy" doc:"Number of jobs assigned to it."`
	JobsLeft        *int                 `json:"jobsLeft" nullable:"true" doc:"Number of jobs that it accepts before it retires; null if unlimited."`
	Jobs            []runnerJob          `json:"jobs" nullable:"false" doc:"The jobs assigned to it."`
	Version         string               `json:"version" example:"0.4.0"`
	OS              string               `json:"os" example:"linux"`
	Arch            string               `json:"arch" example:"amd64"`
	Sandboxes       []string             `json:"sandboxes" nullable:"false" example:"[\"none\",\"bubblewrap\"]"`
	CertifiedUntil  openapi.Timestamp    `json:"certifiedUntil" doc:"When its certificate expires. The agent renews it before that."`
	EnrolledAt      openapi.Timestamp    `json:"enrolledAt"`
	EnrollmentID    string               `json:"enrollmentId" format:"uuid" doc:"The enrollment by which the machine became this runner."`
	StateSince      openapi.Timestamp    `json:"stateSince"`
	LastHeartbeatAt *openapi.Timestamp   `json:"lastHeartbeatAt" nullable:"true" doc:"null if it has never connected."`
	Declines        *runnerDeclines      `json:"declines" doc:"Consecutive jobs that it declined; null if it accepted the last one."`
}

type runnerDeclines struct {
	_          struct{}           `nullable:"true"`
	Count      int                `json:"count" example:"4"`
	Reason     string             `json:"reason" enum:"busy,unsupported,disk_full,draining,no_answer,other" doc:"The reason of the last decline."`
	RestsUntil *openapi.Timestamp `json:"restsUntil" nullable:"true" doc:"It is assigned no job before this time; null if it declined only a few."`
}

func newDeclines(r farmviews.Runner) *runnerDeclines {
	if r.Declined == 0 {
		return nil
	}
	return &runnerDeclines{Count: r.Declined, Reason: r.DeclineReason, RestsUntil: openapi.FormatOptionalTime(r.RestsUntil)}
}

type runnerJob struct {
	ID        string             `json:"id" format:"uuid"`
	Name      string             `json:"name" example:"unit tests"`
	State     events.JobState    `json:"state" enum:"leased,running,cancelling"`
	StartedAt *openapi.Timestamp `json:"startedAt" nullable:"true"`
}

func (r *runner) names() []door.NamePlace {
	return []door.NamePlace{{Address: r.NotedBy, Name: &r.NoterName}}
}

// showRunner returns the answers' form of a runner in its state at this moment, as c may see it.
func (s *Server) showRunner(c *door.Caller) func(farmviews.Runner) runner {
	return func(r farmviews.Runner) runner {
		if c.Token != nil { // only people drain and revoke
			r.NotedBy = ""
		}
		return newRunner(r.At(s.Now()))
	}
}

func newRunner(r farmviews.Runner) runner {
	jobs := make([]runnerJob, 0, len(r.Jobs))
	for _, j := range r.Jobs {
		jobs = append(jobs, runnerJob{j.ID.String(), j.Name, j.State, openapi.FormatOptionalTime(j.StartedAt)})
	}
	return runner{
		ID: r.ID.String(), Name: r.Name, State: r.State, Draining: r.Draining, DrainsItself: r.Draining && r.DrainsItself,
		Note: r.Note, NotedBy: r.NotedBy, OfflineReason: r.OfflineReason,
		Labels: r.Labels, ExclusiveLabels: r.ExclusiveLabels, Slots: r.Capacity, Busy: len(jobs), JobsLeft: r.JobsLeft, Jobs: jobs,
		Version: r.Version, OS: r.OS, Arch: r.Arch, Sandboxes: r.Sandboxes,
		CertifiedUntil: openapi.FormatTime(r.NotAfter), EnrolledAt: openapi.FormatTime(r.EnrolledAt), EnrollmentID: r.Enrollment.String(),
		StateSince:      openapi.FormatTime(r.ChangedAt),
		LastHeartbeatAt: openapi.FormatOptionalTime(r.SeenAt), Declines: newDeclines(r),
	}
}

type slots struct {
	Online   int `json:"online" doc:"Connected runners that accept jobs."`
	Draining int `json:"draining" doc:"Connected runners that accept no new jobs."`
	Offline  int `json:"offline" doc:"Runners that are not connected and can reconnect."`
	Total    int `json:"total" doc:"Number of jobs that the online runners can run at once."`
	Busy     int `json:"busy" doc:"Number of jobs assigned to runners."`
}

func newSlots(s farmviews.RunnerSlots) slots { return slots(s) }

type runnerList struct {
	schema.List[runner]
	Slots slots `json:"slots"`
}

type runnersQuery struct {
	schema.Paging
	Status string `query:"status" enum:"online,offline,ended" doc:"online: connected, including draining. offline: not connected. ended: suspended, revoked or retired. By default all."`
}

type runnersAnswer struct{ Body runnerList }

func (s *Server) listRunners(ctx context.Context, in *runnersQuery) (*runnersAnswer, error) {
	workspace := door.CallerOf(ctx).Workspace
	found, total, err := s.Runners.Page(ctx, workspace, farmviews.RunnerStatus(in.Status), in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	all, err := s.Runners.Slots(ctx, workspace)
	if err != nil {
		return nil, err
	}
	out := &runnersAnswer{runnerList{schema.NewList(found, total, in.Paging, s.showRunner(door.CallerOf(ctx))), newSlots(all)}}
	return out, door.AddNames(ctx, s.Door, out.Body.Items, (*runner).names)
}

// A RunnerPath names a runner.
type RunnerPath struct {
	ID string `path:"id" maxLength:"64" doc:"The runner's id."`
}

func (s *Server) getRunner(ctx context.Context, in *RunnerPath) (*door.BodyAnswer[runner], error) {
	return door.ShowInPath(ctx, in.ID, farm.ErrNoRunner, s.runner)
}

func (s *Server) runner(ctx context.Context, id events.ID) (runner, error) {
	r, err := door.Find(ctx, id, farm.ErrNoRunner, s.Runners.Get)
	if err != nil {
		return runner{}, err
	}
	return door.WithNames(ctx, s.Door, s.showRunner(door.CallerOf(ctx))(r), (*runner).names)
}

type runnerNote struct {
	ID   string `path:"id" maxLength:"64" doc:"The runner's id."`
	Body *struct {
		Note string `json:"note,omitempty" maxLength:"500" doc:"The reason, shown to others and in the audit log." example:"A new disk."`
	}
}

func (in *runnerNote) note() string {
	if in.Body == nil {
		return ""
	}
	return in.Body.Note
}

type runnerAnswer struct {
	schema.Position
	Body runner
}

func (in *runnerNote) drain(c *door.Caller, id events.ID) (commands.DrainRunner, error) {
	return commands.DrainRunner{Meta: c.Meta(), Runner: id, Note: in.note()}, nil
}

func (s *Server) drainRunner(ctx context.Context, _ *runnerNote, drain commands.DrainRunner) (*runnerAnswer, error) {
	done, err := s.Commands.DrainRunner(ctx, drain)
	return s.changedRunner(ctx, done, err, drain.Runner)
}

func (in *RunnerPath) resume(c *door.Caller, id events.ID) (commands.ResumeRunner, error) {
	return commands.ResumeRunner{Meta: c.Meta(), Runner: id}, nil
}

func (s *Server) resumeRunner(ctx context.Context, _ *RunnerPath, resume commands.ResumeRunner) (*runnerAnswer, error) {
	done, err := s.Commands.ResumeRunner(ctx, resume)
	return s.changedRunner(ctx, done, err, resume.Runner)
}

func (in *runnerNote) revoke(c *door.Caller, id events.ID) (commands.RevokeRunner, error) {
	return commands.RevokeRunner{Meta: c.Meta(), Runner: id, Note: in.note()}, nil
}

func (s *Server) revokeRunner(ctx context.Context, _ *runnerNote, revoke commands.RevokeRunner) (*runnerAnswer, error) {
	done, err := s.Commands.RevokeRunner(ctx, revoke)
	return s.changedRunner(ctx, done, err, revoke.Runner)
}

func (s *Server) changedRunner(ctx context.Context, done commands.Result, err error, id events.ID) (*runnerAnswer, error) {
	if err != nil {
		return nil, err
	}
	r, err := s.runner(ctx, id)
	return &runnerAnswer{schema.Position{Position: done.Position}, r}, err
}

// ExampleRunner is the runner of the example workspace.
var ExampleRunner = farmviews.Runner{
	ID: schema.ExampleNo(22), Name: "builder-1", State: events.RunnerStateOnline, ExclusiveLabels: []string{},
	Labels: []string{"arch=amd64", "os=linux", "pool=default", "runner=builder-1"}, Capacity: 2,
	Version: "0.4.0", OS: "linux", Arch: "amd64", Sandboxes: []string{"none", "bubblewrap"},
	Jobs: []farmviews.RunnerJob{{ID: schema.ExampleNo(23), Name: "unit tests", State: events.JobStateRunning,
		StartedAt: new(schema.ExampleAt(1))}},
	NotAfter: schema.ExampleAt(0).Add(7 * 24 * time.Hour), EnrolledAt: schema.ExampleAt(60), ChangedAt: schema.ExampleAt(59),
	SeenAt:     new(schema.ExampleAt(0)),
	Enrollment: schema.ExampleNo(21),
}
