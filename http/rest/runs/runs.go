package runs

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/fold"
	"svc/projections/runviews"
)

func (s *Server) runRoutes() door.Section {
	cancelled := exampleQueued
	cancelled.Status, cancelled.UpdatedAt = events.RunStatusCancelled, schema.ExampleAt(0)
	return door.Section{Tag: "Runs", About: "Runs take issues to a merged pull request.", Routes: []door.Route{
		door.Query(s.listRuns, door.Route{
			Method: "GET", Path: "/runs", Guard: door.AnyMemberOrReadToken, Views: []string{"runs", "run_counts"},
			ID: "listRuns", Summary: "List runs",
			Text: "Lists active runs (`status=active`), oldest first within each stage, or ended runs (`status=terminal`), newest first.",
			AnswerExample: runList{
				schema.NewList([]runviews.Run{ExampleRun()}, 1, schema.ExamplePage, NewRun),
				newRunCounts(runviews.RunCounts{Active: 1, Terminal: 14, Stages: ExampleStages}),
			},
		}),
		door.Query(s.getRun, door.Route{
			Method: "GET", Path: "/runs/{id}", Guard: door.AnyMemberOrReadToken, Views: []string{"runs", "run_counts", "repos"},
			ID: "getRun", Summary: "Get a run",
			Text: "Returns a run with its timeline, changes, resources and guardrails. A run of another workspace is not found: 404 " +
				"`run_not_found`.",
			Refuses:       []*fault.Fault{aggregates.ErrNoRun},
			AnswerExample: exampleRunDetail(),
		}),
		door.Command((*retrial).toCommand, s.retryRun, door.Route{
			Method: "POST", Path: "/runs/{id}/retry", Guard: door.MayDo(events.QueueIssues),
			ID: "retryRun", Summary: "Try a run again", Status: http.StatusCreated,
			Text: "Queues the issue of a run that has ended once more, as a new run, which begins when nothing is left of the earlier one. " +
				"409 `run_active` if the run has not ended, 409 `already_queued` if its issue has another active run.",
			Missing:       aggregates.ErrNoRun,
			Refuses:       []*fault.Fault{aggregates.ErrRunGoesOn, aggregates.ErrQueued, commands.ErrKeyReused, fold.ErrNotCaughtUp},
			AnswerExample: NewRun(exampleQueued),
		}),
		door.Command((*cancellation).toCommand, s.cancelRun, door.Route{
			Method: "POST", Path: "/runs/{id}/cancel", Guard: door.MayDo(events.CancelRuns),
			ID: "cancelRun", Summary: "Cancel a run", Status: http.StatusAccepted,
			Text: "Cancels a run and its waiting decisions. A run that is being merged stops after the attempt, unless that merges it. 409 " +
				"`run_over` if it has already ended. 503 `not_caught_up` if it has been cancelled, but lists do not show it yet.",
			Missing:        aggregates.ErrNoRun,
			Refuses:        []*fault.Fault{aggregates.ErrRunOver, fold.ErrNotCaughtUp},
			RequestExample: schema.Object{"reason": "No longer needed."},
			AnswerExample:  NewRun(cancelled),
		}),
	}}
}

type repo struct {
	ID   string `json:"id" format:"uuid"`
	Name string `json:"name" example:"acme/web"`
}

// A Run is a run in lists, and the head of a run's own answer.
type Run struct {
	ID          string              `json:"id" format:"uuid"`
	IssueNumber int                 `json:"issueNumber" example:"7"`
	IssueTitle  string              `json:"issueTitle" doc:"Empty if the issue was queued by its number only." example:"Fix date parsing"`
	StageLabel  string              `json:"stageLabel" enum:"Queued,Analyze,Plan,Implementing,Build farm,Self-review,Merge,Unknown" doc:"Unknown: a stage that only a newer version of the service knows."`
	Status      events.RunStatus    `json:"status" enum:"queued,analyzing,planning,coding,building,reviewing,needs_input,awaiting_approval,merging,unknown,merged,rejected,failed,cancelled" doc:"unknown if the stage is Unknown."`
	PRNumber    *int                `json:"prNumber,omitempty" doc:"Present once there is a pull request."`
	Repo        repo                `json:"repo"`
	CreatedAt   openapi.Timestamp   `json:"createdAt"`
	UpdatedAt   openapi.Timestamp   `json:"updatedAt"`
	CostCents   int64               `json:"costCents"`
	Round       int                 `json:"round" doc:"Number of times the run entered Implementing: 0 before the first time, above 1 after requested changes or failures."`
	WaitsFor    events.DecisionKind `json:"waitsFor,omitempty" enum:"fact_review,merge_approval,protected_path_allow_once" doc:"The kind of decision that the run waits for. Absent if it does not wait."`
	Wait        *runWait            `json:"wait" doc:"What the run waits for other than a decision; null if it does not."`
	Stuck       *stuck              `json:"stuck,omitempty" doc:"Absent unless the run should progress but does not."`
}

// stuck marks a run that should progress but does not.
type stuck struct {
	Reason string            `json:"reason" enum:"no_progress" doc:"no_progress: nothing was recorded for 30 minutes, although the run is neither queued nor waiting for a person, a job or something else."`
	Since  openapi.Timestamp `json:"since" doc:"When something was last recorded."`
}

// A runWait is what a run waits for other than a decision.
type runWait struct {
	_      struct{}          `nullable:"true"`
	Code   events.WaitCode   `json:"code" doc:"Such as slot: a place among the active runs; lane: its turn to merge; paused: somebody has to resume the repository; host_away: the code host does not answer. Other codes may be added." example:"lane"`
	Detail string            `json:"detail" doc:"A sentence." example:"Second in line, after #12."`
	Since  openapi.Timestamp `json:"since"`
}

func newRunWait(r runviews.Run) *runWait {
	w := runWait{Code: r.WaitCode, Detail: r.WaitDetail}
	if r.WaitSince != nil {
		w.Since = openapi.FormatTime(*r.WaitSince)
	}
	return &w
}

// NewRunAt returns a function that renders runs as of now, with marks on stuck ones.
func NewRunAt(now time.Time) func(runviews.Run) Run {
	return func(r runviews.Run) Run {
		out := NewRun(r)
		if since := r.StuckSince(now); since != nil {
			out.Stuck = &stuck{"no_progress", openapi.FormatTime(*since)}
		}
		return out
	}
}

// NewRun returns a run as answers show it, without marks that depend on the time.
func NewRun(r runviews.Run) Run {
	out := Run{
		ID: r.ID.String(), IssueNumber: r.IssueNumber, IssueTitle: r.IssueTitle, StageLabel: events.StageAt(r.Stage).Label(),
		Status: r.Status, PRNumber: r.PRNumber, Repo: repo{r.Repo.String(), r.RepoName},
		CreatedAt: openapi.FormatTime(r.CreatedAt), UpdatedAt: openapi.FormatTime(r.UpdatedAt),
		CostCents: r.CostCents, Round: r.Round, WaitsFor: r.WaitsFor,
	}
	if r.WaitCode != "" {
		out.Wait = newRunWait(r)
	}
	return out
}

type runsQuery struct {
	Status string `query:"status" required:"true" enum:"active,terminal" doc:"active: runs that have not ended. terminal: runs that have ended."`
	Repo   string `query:"repo" format:"uuid" doc:"Only runs of this repository."`
	Q      string `query:"q" maxLength:"200" doc:"Only runs whose issue title, repository name or branch contains this text, ignoring case and accents, or whose issue has this number, or whose pull request has it in its number. Only the first 10,000 runs of the list are searched and counted; use repo to narrow it."`
	Counts bool   `query:"counts" doc:"Whether to return counts."`
	schema.Paging
}

type runsAnswer struct{ Body runList }

type runList struct {
	schema.List[Run]

	Counts *runCounts `json:"counts,omitempty" doc:"Present with counts=true."`
}

// runCounts counts all runs or, with repo, those of the repository. It ignores status and q.
type runCounts struct {
	Active   int          `json:"active" doc:"Runs that have not ended, of the repository if repo is set. status and q do not apply."`
	Terminal int          `json:"terminal" doc:"Runs that have ended."`
	ByStage  []StageCount `json:"byStage" nullable:"false" doc:"Active runs by stage, in the order of the loop."`
}

func newRunCounts(c runviews.RunCounts) *runCounts {
	return &runCounts{c.Active, c.Terminal, NewStageCounts(c.Stages)}
}

// A StageCount counts the active runs in a stage.
type StageCount struct {
	Label   string `json:"label" example:"Build farm"`
	Count   int    `json:"count" doc:"Runs in this stage, including waiting and stuck ones."`
	Waiting int    `json:"waiting" doc:"Runs that wait for a person."`
	Stuck   int    `json:"stuck" doc:"Runs that should progress but do not."`
}

// NewStageCounts returns the counts of all stages.
func NewStageCounts(s runviews.Stages) []StageCount {
	list := make([]StageCount, len(s.List))
	for i, c := range s.List {
		list[i] = StageCount{events.StageAt(i).Label(), c.Runs, c.Waiting, c.Stuck}
	}
	return list
}

func (s *Server) listRuns(ctx context.Context, in *runsQuery) (*runsAnswer, error) {
	q := runviews.RunQuery{
		Workspace: door.CallerOf(ctx).Workspace, Active: in.Status == "active", Q: in.Q, Limit: in.Limit, Offset: in.Offset,
	}
	if in.Repo != "" {
		id, err := events.ParseID(in.Repo)
		if err != nil {
			return nil, fault.Field("repo", "must be an id")
		}
		q.Repo = &id
	}
	found, total, err := s.Listed.Runs.Page(ctx, q)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	out := &runsAnswer{runList{List: schema.NewList(found, total, in.Paging, NewRunAt(now))}}
	if in.Counts {
		counts, err := s.Listed.Runs.Counts(ctx, q.Workspace, q.Repo, now)
		if err != nil {
			return nil, err
		}
		out.Body.Counts = newRunCounts(counts)
	}
	return out, nil
}

type runDetail struct {
	Run        Run        `json:"run"`
	Links      *links     `json:"links,omitempty" doc:"Absent if no code host is configured."`
	Head       branchHead `json:"head"`
	Timeline   timeline   `json:"timeline"`
	Changes    changes    `json:"changes"`
	Resources  resources  `json:"resources"`
	Guardrails guardrails `json:"guardrails"`
	Merge      *runMerge  `json:"merge" doc:"How the run merges or was merged; null before its turn to merge."`
	Plan       runPlan    `json:"plan"`

	Estimates []runEstimate `json:"estimates" nullable:"false" doc:"What the run was expected to cost, once for each time that more was known of it. The last one is the best."`

	Tidied *runTidied `json:"tidied" doc:"What became of the pull request and the branch after the end; null until then."`
	End    *runEnd    `json:"end" doc:"Why the run ended without a merge; null until then."`
}

type branchHead struct {
	BranchName string `json:"branchName" doc:"Empty until the run has a branch." example:"run/7-fix-date-parsing"`
	SHA        string `json:"sha" doc:"Empty until the first push." example:"9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"`
}

type timeline struct {
	Stages []stage `json:"stages" nullable:"false"`
}

type stage struct {
	Label      string             `json:"label" example:"Build farm"`
	Status     string             `json:"status" enum:"pending,active,succeeded,failed,blocked,skipped"`
	StartedAt  *openapi.Timestamp `json:"startedAt" nullable:"true"`
	FinishedAt *openapi.Timestamp `json:"finishedAt" nullable:"true"`
	Attempt    int                `json:"attempt" doc:"Number of times the stage was entered."`
}

type changes struct {
	Files   int                 `json:"files" doc:"Number of files, which may be more than items lists."`
	Added   int                 `json:"added"`
	Removed int                 `json:"removed"`
	Items   []events.FileChange `json:"items" nullable:"false"`
}

type resources struct {
	CostCents int64    `json:"costCents"`
	Unknown   bool     `json:"costUnknown" doc:"Whether a part of the cost is not known, which costCents does not include."`
	ComputeMS int64    `json:"computeMs"`
	Budget    *budget  `json:"budget" doc:"The run's limits; null if it has none."`
	Jobs      []runJob `json:"jobs" nullable:"false" doc:"The run's jobs in the order of their requests. The last hundred have their state at the build farm."`
}

// A budget is the limits of a run, null for unlimited.
type budget struct {
	_         struct{} `nullable:"true"`
	CostCents *int64   `json:"costCents" nullable:"true" example:"500"`
	ComputeMS *int64   `json:"computeMs" nullable:"true" doc:"Build farm time of all jobs together." example:"1800000"`
	Rounds    *int     `json:"rounds" nullable:"true" doc:"Number of times the run may enter Implementing." example:"3"`
}

func newBudget(r runviews.Run) *budget {
	b := budget{CostCents: nilIfZero(r.BudgetCents), ComputeMS: nilIfZero(r.BudgetComputeMS), Rounds: nilIfZero(r.BudgetRounds)}
	if b == (budget{}) {
		return nil
	}
	return &b
}

func nilIfZero[N int | int64](n N) *N {
	if n == 0 {
		return nil
	}
	return &n
}

type guardrails struct {
	Status string  `json:"status" enum:"unchecked,clean,blocked,allowed_once"`
	Checks []check `json:"checks" nullable:"false"`
}

type check struct {
	ID       string                    `json:"id" example:"protected_paths"`
	Status   string                    `json:"status" enum:"pass,block,allowed_once"`
	Note     string                    `json:"note" doc:"A short summary of the result; empty if none was recorded." example:"97 of 1,500 lines"`
	Findings []events.GuardrailFinding `json:"findings" nullable:"false"`
}

type runPath struct {
	ID string `path:"id" maxLength:"64" doc:"The run's id."`
}

type runAnswer struct{ Body runDetail }

func (s *Server) getRun(ctx context.Context, in *runPath) (*runAnswer, error) {
	found, err := door.FindInPath(ctx, in.ID, aggregates.ErrNoRun, s.Listed.Runs.Get)
	if err != nil {
		return nil, err
	}
	sites, err := s.sitesOf(ctx, []events.ID{found.Repo})
	if err != nil {
		return nil, err
	}
	out := newRunDetail(found)
	out.Run, out.Links = NewRunAt(s.Now())(found), s.CodeHost.linksAt(sites, found)
	return &runAnswer{out}, s.addFarmState(ctx, found.Workspace, out.Resources.Jobs)
}

func newRunDetail(r runviews.Run) runDetail {
	d := r.Detail
	out := runDetail{
		Run: NewRun(r), Head: branchHead{d.Branch, d.Head},
		Timeline:   timeline{Stages: []stage{}},
		Changes:    changes{Files: len(d.Files), Items: append([]events.FileChange{}, d.Files...)},
		Resources:  resources{CostCents: r.CostCents, Unknown: d.CostUnknown, Budget: newBudget(r), Jobs: []runJob{}},
		Guardrails: guardrails{Status: d.Guardrails, Checks: []check{}},
		Merge:      newRunMerge(r), Plan: newRunPlan(d), Estimates: newRunEstimates(d.Estimates), Tidied: newRunTidied(d), End: newRunEnd(d),
	}
	for i, st := range d.Stages {
		out.Timeline.Stages = append(out.Timeline.Stages, stage{
			Label: cmp.Or(st.Name, events.StageAt(i).Label()), Status: st.Status, Attempt: st.Attempt,
			StartedAt: openapi.FormatOptionalTime(st.StartedAt), FinishedAt: openapi.FormatOptionalTime(st.FinishedAt),
		})
	}
	for _, f := range d.Files {
		out.Changes.Added += f.Added
		out.Changes.Removed += f.Removed
	}
	if t := d.Total; t != nil {
		out.Changes.Files, out.Changes.Added, out.Changes.Removed = t.Files, t.Added, t.Removed
	}
	for i, j := range d.Jobs {
		out.Resources.ComputeMS += j.ComputeMS
		one := newRunJob(j)
		if i < len(r.JobRounds) { // runs from lists have none
			one.Round = r.JobRounds[i]
		}
		out.Resources.Jobs = append(out.Resources.Jobs, one)
	}
	for _, c := range d.Checks {
		out.Guardrails.Checks = append(out.Guardrails.Checks,
			check{c.Check, c.Status, c.Note, append([]events.GuardrailFinding{}, c.Findings...)})
	}
	return out
}

type cancellation struct {
	ID   string `path:"id" maxLength:"64" doc:"The run's id."`
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"The reason, for the audit log." example:"No longer needed."`
	}
}

func (in *cancellation) toCommand(c *door.Caller, id events.ID) (commands.CancelRun, error) {
	cancel := commands.CancelRun{Meta: c.Meta(), Run: id}
	if in.Body != nil {
		cancel.Reason = in.Body.Reason
	}
	return cancel, nil
}

func (s *Server) cancelRun(ctx context.Context, _ *cancellation, cancel commands.CancelRun) (*queuedAnswer, error) {
	done, err := s.Commands.CancelRun(ctx, cancel)
	if err != nil {
		return nil, err
	}
	return s.awaitRun(ctx, done, cancel.Run)
}

// awaitRun waits until the view has the command's events, and returns the run.
func (s *Server) awaitRun(ctx context.Context, done commands.Result, id events.ID) (*queuedAnswer, error) {
	if err := s.Primary.Await(ctx, "runs", door.CallerOf(ctx).Workspace, done.Position); err != nil {
		return nil, err
	}
	found, err := door.Find(ctx, id, aggregates.ErrNoRun, s.Runs.Get)
	if err != nil {
		return nil, err
	}
	return &queuedAnswer{schema.Position{Position: done.Position}, NewRun(found)}, nil
}

var exampleQueued = runviews.Run{
	ID: schema.ExampleNo(8), Repo: schema.ExampleRepo.ID, RepoName: schema.ExampleRepo.Name, IssueNumber: 7, IssueTitle: "Fix date parsing",
	Status: events.RunStatusQueued, Active: true, CreatedAt: schema.ExampleAt(60), UpdatedAt: schema.ExampleAt(60),
}

// ExampleStages are the stages of the example runs.
var ExampleStages = runviews.Stages{List: []runviews.StageCount{{}, {}, {}, {}, {}, {}, {Runs: 1, Waiting: 1}}}

// ExampleRun returns exampleQueued an hour later, when it waits for approval to merge.
func ExampleRun() runviews.Run {
	r, pr := exampleQueued, 12
	r.WaitsFor, r.Round, r.JobRounds = events.MergeApproval, 1, []int{1}
	r.Stage, r.Status = events.StageMerge.Index(), events.RunStatusAwaitingApproval
	r.PRNumber, r.CostCents, r.UpdatedAt = &pr, 112, schema.ExampleAt(5)
	r.BudgetCents, r.BudgetComputeMS, r.BudgetRounds = 500, 1_800_000, 3
	d := &r.Detail
	d.Branch, d.Head = "run/7", schema.ExampleHead
	for i := range events.Stages() {
		d.Stages = append(d.Stages, runviews.RunStage{
			Status: "succeeded", Attempt: 1, StartedAt: new(schema.ExampleAt(60 - 9*i)), FinishedAt: new(schema.ExampleAt(51 - 9*i)),
		})
	}
	last := &d.Stages[r.Stage]
	last.Status, last.FinishedAt = "blocked", nil
	d.Files = []events.FileChange{
		{Path: "web/date.go", Change: events.FileModified, Added: 12, Removed: 3},
		{Path: "web/date_test.go", Change: events.FileAdded, Added: 29},
	}
	d.Jobs = []runviews.RunJob{{ID: schema.ExampleNo(10), Name: "build and test", Status: "succeeded", ComputeMS: 84_000,
		Purpose: events.JobRequired, Attempt: 1, ExitCode: new(0)}}
	d.Estimates = []runviews.RunEstimate{{When: events.EstimatedPushed, Size: "small", Cents: &events.EstimateSpread{P50: 90, P80: 140},
		WorkMS: &events.EstimateSpread{P50: 600_000, P80: 1_500_000}, Merged: 1, Basis: []events.ID{schema.ExampleNo(9)}}}
	d.Guardrails, d.Checks = "clean", []events.Guardrail{{Check: "protected_paths", Status: "pass", Note: "none touched"}}
	return r
}
