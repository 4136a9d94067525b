package runs

import (
	"context"
	"fmt"
	"slices"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/runviews"
)

func (s *Server) inboxRoutes() door.Section {
	ada := &door.Caller{Person: &door.Person{Role: events.Owner, ApproveLoops: true}}
	return door.Section{Tag: "Inbox", About: "Decisions that runs need from people.", Routes: []door.Route{
		door.Query(s.listInbox, door.Route{
			Method: "GET", Path: "/inbox", Guard: door.AnyMemberOrReadToken, Views: []string{"decisions", "runs", "repos"},
			ID: "listInbox", Summary: "List waiting decisions",
			Text: "Lists the decisions that wait for a person, newest first. Each action says whether the caller may choose it; if not, " +
				"`disabledReason` is `role_required` or, without the permission to approve loops, `capability_required`. Tokens cannot " +
				"answer decisions.",
			AnswerExample: inbox{
				newInboxHead(ada, ExampleWaiting),
				schema.NewList([]runviews.Waiting{exampleDecision}, 1, schema.ExamplePage,
					func(w runviews.Waiting) inboxItem { return newInboxItem(w, ada, exampleHost.links(w.ByRun)) }),
			},
		}),
		door.Command((*newAnswer).toCommand, s.answerDecision, door.Route{
			Method: "POST", Path: "/inbox/{id}/answer", Guard: door.AnyMember, // each kind has its own rule
			Limits: middleware.Limits{Body: 128 << 10}, // the note, of which every character may be an escape sequence
			ID:     "answerDecision", Summary: "Answer a decision",
			Text: "Answers a decision; the run continues at once. 409 `decision_stale` if the branch has moved or the run has stopped, " +
				"409 `decision_answered` if it was answered before. 403 `role_required` or `capability_required`, depending on the " +
				"decision's kind.",
			Missing: aggregates.ErrNoDecision,
			Refuses: []*fault.Fault{
				aggregates.RoleRequired(events.AllowProtectedPaths), aggregates.ErrCapabilityRequired, aggregates.ErrDecisionStale,
				aggregates.ErrDecisionAnswered, aggregates.ErrApproverIsQueuer, commands.ErrKeyReused,
			},
			RequestExample: schema.Object{"action": aggregates.ActionApproveAndMerge, "note": "The test covers it.",
				"expectedHead": schema.ExampleHead},
			AnswerExample: decidedBody{exampleDecision.ID.String(), exampleDecision.Kind, exampleDecision.Run.String(),
				aggregates.ActionApproveAndMerge},
		}),
	}}
}

type inboxQuery struct{ schema.Paging }

type inboxAnswer struct{ Body inbox }

type inbox struct {
	Head inboxHead `json:"head"`
	schema.List[inboxItem]
}

// An inboxHead summarizes all waiting decisions, not only those of the page.
type inboxHead struct {
	Sentence   string             `json:"sentence" example:"2 of 3 decisions are waiting for you."`
	Answerable int                `json:"answerable" doc:"Number of decisions that the caller may answer; 0 for a token."`
	OldestAt   *openapi.Timestamp `json:"oldestAt" nullable:"true" doc:"When the oldest of them was raised; null if there is none."`
	ByKind     []kindCount        `json:"byKind" nullable:"false" doc:"Counts by kind, including kinds with none."`
}

// A kindCount counts the waiting decisions of a kind.
type kindCount struct {
	KindID     events.DecisionKind `json:"kindId" enum:"fact_review,merge_approval,protected_path_allow_once"`
	Count      int                 `json:"count"`
	Answerable bool                `json:"answerable" doc:"Whether the caller may answer decisions of this kind."`
}

// An inboxItem is a waiting decision with the evidence for it.
type inboxItem struct {
	ID        string              `json:"id" format:"uuid"`
	KindID    events.DecisionKind `json:"kindId" enum:"fact_review,merge_approval,protected_path_allow_once"`
	Question  string              `json:"question" example:"Merge #12 into main?"`
	RunID     string              `json:"runId" format:"uuid"`
	CreatedAt openapi.Timestamp   `json:"createdAt"`
	Subject   subject             `json:"subject"`
	Evidence  evidence            `json:"evidence"`
	Actions   []inboxAction       `json:"actions" nullable:"false" doc:"The possible answers, most likely first."`
}

type subject struct {
	Repo        repo   `json:"repo"`
	Links       *links `json:"links,omitempty" doc:"Absent if no code host is configured."`
	IssueNumber int    `json:"issueNumber" example:"7"`
	IssueTitle  string `json:"issueTitle" doc:"Empty if the issue was queued by its number only." example:"Fix date parsing"`
	PRNumber    *int   `json:"prNumber,omitempty" doc:"Present once there is a pull request."`
	HeadSHA     string `json:"headSha" doc:"The commit that the decision is about; send it as expectedHead. Empty for a fact review." example:"9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"`
}

type evidence struct {
	Files      int       `json:"files"`
	Added      int       `json:"added"`
	Removed    int       `json:"removed"`
	Guardrails string    `json:"guardrails" enum:"unchecked,clean,blocked,allowed_once"`
	Findings   []finding `json:"findings" nullable:"false" doc:"Paths that matched a guardrail, each with the matched rule."`
	CostCents  int64     `json:"costCents"`
	Jobs       []job     `json:"jobs" nullable:"false"`
}

type finding struct {
	Path    string `json:"path" example:".github/workflows/ci.yml"`
	Rule    string `json:"rule" example:".github/**"`
	Added   int    `json:"added" doc:"Lines that the run adds to this file; 0 if its last push left the file alone."`
	Removed int    `json:"removed" doc:"Lines that the run removes from this file."`
}

type job struct {
	ID        string `json:"id" format:"uuid"`
	Name      string `json:"name" example:"build and test"`
	Status    string `json:"status" enum:"requested,succeeded,failed,cancelled,timed_out,lost,expired"`
	ComputeMS int64  `json:"computeMs"`
}

type inboxAction struct {
	ID             string `json:"id" enum:"confirm,correct,reject,approve_and_merge,request_changes,allow_once,deny"`
	Label          string `json:"label" example:"Approve and merge"`
	Allowed        bool   `json:"allowed"`
	DisabledReason string `json:"disabledReason,omitempty" enum:"role_required,capability_required" doc:"Why the caller may not choose it; absent if allowed."`
}

var actionLabels = map[string]string{
	aggregates.ActionConfirm:         "Confirm",
	aggregates.ActionCorrect:         "Correct",
	aggregates.ActionReject:          "Reject",
	aggregates.ActionApproveAndMerge: "Approve and merge",
	aggregates.ActionRequestChanges:  "Request changes",
	aggregates.ActionAllowOnce:       "Allow once",
	aggregates.ActionDeny:            "Deny",
}

func (s *Server) listInbox(ctx context.Context, in *inboxQuery) (*inboxAnswer, error) {
	c := door.CallerOf(ctx)
	found, counts, err := s.Listed.Decisions.Inbox(ctx, c.Workspace, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	var repos []events.ID
	for _, w := range found {
		repos = append(repos, w.ByRun.Repo)
	}
	sites, err := s.sitesOf(ctx, repos)
	if err != nil {
		return nil, err
	}
	items := schema.NewList(found, counts.Total(), in.Paging, func(w runviews.Waiting) inboxItem {
		return newInboxItem(w, c, s.CodeHost.linksAt(sites, w.ByRun))
	})
	return &inboxAnswer{inbox{newInboxHead(c, counts), items}}, nil
}

// DecisionKinds are the counted kinds, in the order of the answer.
var DecisionKinds = []events.DecisionKind{events.MergeApproval, events.ProtectedPathOnce, events.FactReview}

func newInboxHead(c *door.Caller, counts runviews.WaitingCounts) inboxHead {
	h := inboxHead{OldestAt: openapi.FormatOptionalTime(counts.Oldest), ByKind: []kindCount{}}
	for _, kind := range DecisionKinds {
		one := kindCount{kind, counts.ByKind[kind], mayDecide(c, kind) == nil}
		if one.Answerable {
			h.Answerable += one.Count
		}
		h.ByKind = append(h.ByKind, one)
	}
	h.Sentence = inboxSentence(c, counts.Total(), h.Answerable)
	return h
}

// mayDecide refuses a caller that may not answer decisions of a kind. Tokens may answer none.
func mayDecide(c *door.Caller, k events.DecisionKind) error {
	if c.Person == nil {
		return aggregates.MayDecide(k, "", false)
	}
	return aggregates.MayDecide(k, c.Person.Role, c.Person.ApproveLoops)
}

func inboxSentence(c *door.Caller, all, own int) string {
	verb, noun := "are", "decisions"
	if all == 1 {
		verb, noun = "is", "decision"
	}
	switch {
	case all == 0:
		return "Nothing is waiting."
	case c.Token != nil:
		return fmt.Sprintf("%d %s %s waiting for a person.", all, noun, verb)
	case own == all:
		return fmt.Sprintf("%d %s %s waiting for you.", all, noun, verb)
	case own == 0:
		return fmt.Sprintf("%d %s %s waiting for others.", all, noun, verb)
	}
	return fmt.Sprintf("%d of %d decisions are waiting for you.", own, all)
}

func newInboxItem(w runviews.Waiting, c *door.Caller, at *links) inboxItem {
	r := newRunDetail(w.ByRun)
	item := inboxItem{
		ID: w.ID.String(), KindID: w.Kind, Question: w.Question, RunID: w.Run.String(), CreatedAt: openapi.FormatTime(w.RaisedAt),
		Subject: subject{
			Repo: r.Run.Repo, IssueNumber: w.ByRun.IssueNumber, IssueTitle: w.ByRun.IssueTitle, PRNumber: w.ByRun.PRNumber, HeadSHA: w.Head,
			Links: at,
		},
		Evidence: evidence{
			Files: r.Changes.Files, Added: r.Changes.Added, Removed: r.Changes.Removed,
			Guardrails: r.Guardrails.Status, Findings: []finding{}, CostCents: r.Resources.CostCents, Jobs: []job{},
		},
		Actions: []inboxAction{}, // stays empty for a kind that only a newer build knows
	}
	for _, j := range r.Resources.Jobs {
		item.Evidence.Jobs = append(item.Evidence.Jobs, job{j.ID, j.Name, j.Status, j.ComputeMS})
	}
	for _, c := range r.Guardrails.Checks {
		for _, f := range c.Findings {
			one := finding{Path: f.Path, Rule: f.Rule}
			if i := slices.IndexFunc(r.Changes.Items, func(c events.FileChange) bool { return c.Path == f.Path }); i >= 0 {
				one.Added, one.Removed = r.Changes.Items[i].Added, r.Changes.Items[i].Removed
			}
			item.Evidence.Findings = append(item.Evidence.Findings, one)
		}
	}
	reason := ""
	if f := fault.As(mayDecide(c, w.Kind)); f != nil {
		reason = f.Code
	}
	for _, id := range aggregates.Actions(w.Kind) {
		item.Actions = append(item.Actions, inboxAction{id, actionLabels[id], reason == "", reason})
	}
	return item
}

type newAnswer struct {
	ID string `path:"id" maxLength:"64" doc:"The decision's id."`
	schema.Idempotency
	Body struct {
		Action       string `json:"action" enum:"confirm,correct,reject,approve_and_merge,request_changes,allow_once,deny" doc:"One of the item's actions." example:"approve_and_merge"`
		Note         string `json:"note,omitempty" maxLength:"10000" doc:"The reason. Required for correct and request_changes." example:"The test covers it."`
		ExpectedHead string `json:"expectedHead,omitempty" maxLength:"200" doc:"The item's headSha, the commit that was reviewed. Required for approve_and_merge." example:"9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"`
	}
}

type decisionAnswer struct {
	schema.Position
	Body decidedBody
}

type decidedBody struct {
	ID     string              `json:"id" format:"uuid"`
	KindID events.DecisionKind `json:"kindId" enum:"fact_review,merge_approval,protected_path_allow_once"`
	RunID  string              `json:"runId" format:"uuid"`
	Action string              `json:"action" example:"approve_and_merge"`
}

func (in *newAnswer) toCommand(c *door.Caller, id events.ID) (commands.AnswerDecision, error) {
	return commands.AnswerDecision{Meta: c.MetaWithKey(in.Idempotency), Answer: aggregates.Answer{
		Decision: id, Action: in.Body.Action, Note: in.Body.Note, ExpectedHead: in.Body.ExpectedHead,
	}}, nil
}

func (s *Server) answerDecision(ctx context.Context, in *newAnswer, answer commands.AnswerDecision) (*decisionAnswer, error) {
	d, err := door.Find(ctx, answer.Decision, aggregates.ErrNoDecision, s.Decisions.Get)
	if err != nil {
		return nil, err
	}
	answer.Run = d.Run
	done, err := s.Commands.AnswerDecision(ctx, answer)
	if err != nil {
		return nil, err
	}
	return &decisionAnswer{schema.Position{Position: done.Position}, decidedBody{in.ID, d.Kind, d.Run.String(), in.Body.Action}}, nil
}

// ExampleWaiting is what waits in the example workspace.
var ExampleWaiting = runviews.WaitingCounts{
	ByKind: map[events.DecisionKind]int{events.MergeApproval: 1}, Oldest: new(schema.ExampleAt(5)),
}

var exampleDecision = runviews.Waiting{
	Decision: runviews.Decision{
		ID: schema.ExampleNo(9), Run: exampleQueued.ID, Kind: events.MergeApproval, Question: "Merge #12 into main?",
		Head: schema.ExampleHead, RaisedAt: schema.ExampleAt(5),
	},
	ByRun: ExampleRun(),
}
