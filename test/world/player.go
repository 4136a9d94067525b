package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"svc/aggregates"
	"svc/commands"
	"svc/commands/bearer"
	"svc/events"
	"svc/fault"
)

// A Player issues random commands in a workspace, as people, scripts and the engine
// would. Several players may share a workspace.
type Player struct {
	*World
	random    *rand.Rand
	Workspace events.ID
	Owner     events.Actor
	Members   []events.ID
	Accounts  []events.ID
	Runs      []*runState
	bots      int
	guests    guestList
}

// texts are user input, some of it with characters that JSON, HTML or SQL must escape.
var texts = []string{"Fix date parsing", "Ñandú 🐘", `a "quoted" \ title`, "<b>&amp;</b>", "O'Hara; drop table runs", "tab\tand\nline",
	"\u2028", ""}

// NewPlayer registers an Owner with a workspace and returns a player in it.
func (w *World) NewPlayer(ctx context.Context, seed uint64) (*Player, error) {
	p := &Player{World: w, random: rand.New(rand.NewPCG(seed, 1)), Workspace: NewID()}
	user := NewID()
	email := fmt.Sprintf("owner-%s@acme.example", p.Workspace)
	p.Owner = events.Actor{Type: events.ByUser, ID: user, Name: email}
	_, err := w.Commands.RegisterUser(ctx, commands.RegisterUser{
		Meta: Meta(p.Workspace, p.Owner), User: user, Member: NewID(), Name: "Ann " + p.text(), Emails: []string{email, "a." + email},
		WorkspaceName: "Acme", WorkspaceSlug: "w" + p.Workspace.String()[24:],
		Account: events.UserAccountLinked{User: user, Provider: "github", Account: user.String(), Login: "ann"},
	})
	if err == nil {
		err = p.invite(ctx) // to an address that nobody signs in with
	}
	return p, err
}

// AnotherPlayer returns a player that acts in the same workspace as p. Its seed must differ from that of
// others, as it also numbers the names of service accounts.
func (p *Player) AnotherPlayer(seed uint64) *Player {
	return &Player{World: p.World, random: rand.New(rand.NewPCG(seed, 2)), Workspace: p.Workspace, Owner: p.Owner,
		bots: int(seed) * 1_000_000}
}

func (p *Player) text() string { return texts[p.random.IntN(len(texts))] }

// pick returns a random element, or the zero value of an empty list.
func pick[T any](p *Player, list []T) (v T) {
	if len(list) > 0 {
		v = list[p.random.IntN(len(list))]
	}
	return v
}

// Play issues n commands of members and the engine, and n/3 of guests. It ignores refusals and unavailability,
// and stops at any other error.
func (p *Player) Play(ctx context.Context, n int) error {
	for i := range n + n/3 {
		err := p.step(ctx, i)
		if f := fault.As(err); f != nil &&
			(f.Kind == fault.Conflict || f.Kind == fault.NotFound || f.Kind == fault.Denied || f.Kind == fault.Invalid) {
			continue
		}
		if err != nil && fault.IsUnavailable(err) && !errors.Is(err, events.ErrOutcomeUnknown) { // a view's lock was held for too long
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step issues the i-th command: three of four are of members and the engine, the fourth is of a guest.
func (p *Player) step(ctx context.Context, i int) error {
	if i%4 < 3 {
		return p.stepWorkspace(ctx)
	}
	return p.stepGuest(ctx)
}

// stepWorkspace issues a random command on members, the workspace, service accounts or runs.
func (p *Player) stepWorkspace(ctx context.Context) (err error) {
	o := Meta(p.Workspace, p.Owner)
	switch luck := p.random.IntN(100); {
	case luck < 8:
		add := commands.AddMember{Meta: Meta(p.Workspace, System), Member: NewID(), User: NewID(), Email: p.text() + "@x", Name: p.text(),
			Role: events.Viewer}
		p.Members = append(p.Members, add.Member)
		_, err = p.Commands.AddMember(ctx, add)
	case luck < 20:
		update := commands.UpdateMember{Meta: o, Member: pick(p, p.Members)}
		if p.random.IntN(3) > 0 {
			update.Role = Ptr(pick(p, []events.Role{events.Owner, events.Maintainer, events.Viewer}))
		}
		if p.random.IntN(3) > 0 {
			update.ApproveLoops = Ptr(p.random.IntN(2) == 0)
		}
		_, err = p.Commands.UpdateMember(ctx, update)
	case luck < 22:
		_, err = p.Commands.RefreshMember(ctx, commands.RefreshMember{Meta: o, Name: "Ann " + p.text(), Email: p.Owner.Name})
	case luck < 24:
		_, err = p.Commands.RemoveMember(ctx, commands.RemoveMember{Meta: o, Member: pick(p, p.Members)})
	case luck < 26:
		_, err = p.Commands.RenameWorkspace(ctx, commands.RenameWorkspace{Meta: o, Name: Ptr("Acme " + p.text())})
	case luck < 44:
		err = p.stepServiceAccount(ctx, o)
	case luck < 54:
		r := &runState{id: NewID(), repo: events.Repo{ID: NewID(), Name: "acme/" + p.text() + "x"}, attempts: map[events.Stage]int{}}
		p.Runs = append(p.Runs, r)
		_, err = p.Commands.QueueRun(ctx, commands.QueueRun{
			Meta: Meta(p.Workspace, System), Run: r.id, Repo: r.repo, IssueNumber: 1 + p.random.IntN(999), IssueTitle: p.text(),
		})
	case luck < 60 && len(p.Runs) > 0:
		err = p.answerDecision(ctx, o, p.Runs[max(0, len(p.Runs)-1-p.random.IntN(6))])
	case len(p.Runs) > 0:
		err = p.stepRun(ctx, p.Runs[max(0, len(p.Runs)-1-p.random.IntN(6))])
	}
	return err
}

// answerDecision lets the Owner answer the last decision of a run, whether it is still open or not.
func (p *Player) answerDecision(ctx context.Context, m commands.Meta, r *runState) error {
	a := aggregates.Answer{
		Decision: r.decision, Action: pick(p, aggregates.Actions(r.decisionKind)), Note: p.text(), ExpectedHead: r.decisionHead,
	}
	_, err := p.Commands.AnswerDecision(ctx, commands.AnswerDecision{Meta: m, Run: r.id, Answer: a})
	switch {
	case err != nil:
	case a.Action == aggregates.ActionDeny || a.Action == aggregates.ActionRequestChanges:
		r.stage, r.settled = events.StageImplementing.Index(), false
		r.attempts[events.StageImplementing]++
	case a.Action == aggregates.ActionApproveAndMerge:
		r.approved = r.decisionHead
	}
	return err
}

func (p *Player) stepServiceAccount(ctx context.Context, m commands.Meta) (err error) {
	account := pick(p, p.Accounts)
	switch luck := p.random.IntN(18); {
	case luck < 6:
		p.bots++
		create := commands.CreateServiceAccount{
			Meta: m, Account: NewID(), Token: bearer.NewServiceToken(), Name: fmt.Sprintf("bot-%d", p.bots),
			Scopes: []events.Scope{events.ReadAPI, events.SubmitJobs}[p.random.IntN(2):],
		}
		p.Accounts = append(p.Accounts, create.Account)
		_, err = p.Commands.CreateServiceAccount(ctx, create)
	case luck < 12:
		_, err = p.Commands.RotateServiceAccount(ctx, commands.RotateServiceAccount{Meta: m, Account: account, Token: bearer.NewServiceToken()})
	case luck < 15:
		_, err = p.Commands.RevokeServiceAccount(ctx, commands.RevokeServiceAccount{Meta: m, Account: account})
	default:
		_, err = p.Commands.NoteStaleToken(ctx, commands.NoteStaleToken{Meta: Meta(p.Workspace, System), Account: account, Tail: "tail"})
	}
	return err
}

// PlayEndings plays runs with ends that Play reaches only by chance: one merged after a failed attempt, one whose
// decision is open, one cancelled with its decision open, and one whose decision is answered. It then plays jobs.
func (p *Player) PlayEndings(ctx context.Context) error {
	withDecision := func(id events.ID) []events.Event {
		return []events.Event{
			events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1},
			events.DecisionRaised{Decision: id, About: events.FactReview, Question: p.text()},
		}
	}
	merged, answered := NewID(), NewID()
	cancelled := append(withDecision(NewID()), events.RunCancelled{})
	for i, facts := range [][]events.Event{ToApproval(p.slot(), "h", merged), withDecision(NewID()), cancelled, withDecision(answered)} {
		run := commands.QueueRun{
			Meta: Meta(p.Workspace, System), Run: NewID(), Repo: events.Repo{ID: NewID(), Name: "acme/web"}, IssueNumber: 1,
		}
		if _, err := p.Commands.QueueRun(ctx, run); err != nil {
			return err
		}
		if i > 0 {
			facts = append(Started(p.slot()), facts...)
		}
		if err := p.record(ctx, run.Run, facts...); err != nil {
			return err
		}
		var err error
		switch last, _ := facts[len(facts)-1].(events.DecisionRaised); last.Decision {
		case answered:
			err = p.answer(ctx, run.Run, aggregates.Answer{Decision: answered, Action: aggregates.ActionConfirm})
		case merged:
			err = p.answer(ctx, run.Run, aggregates.Answer{Decision: merged, Action: aggregates.ActionApproveAndMerge, ExpectedHead: "h"})
			if err == nil {
				err = p.record(ctx, run.Run, Merged("h")...)
			}
		}
		if err != nil {
			return err
		}
	}
	return p.playFarm(ctx)
}

// slot returns a place that no other run has.
func (p *Player) slot() int { return 1 + p.random.IntN(1<<30) }

// record records facts of a run.
func (p *Player) record(ctx context.Context, run events.ID, facts ...events.Event) error {
	_, err := p.Commands.RecordRun(ctx, commands.RecordRun{Meta: Meta(p.Workspace, System), Run: run, Facts: facts})
	return err
}

// answer answers a decision as the Owner.
func (p *Player) answer(ctx context.Context, run events.ID, a aggregates.Answer) error {
	_, err := p.Commands.AnswerDecision(ctx, commands.AnswerDecision{Meta: Meta(p.Workspace, p.Owner), Run: run, Answer: a})
	return err
}

// A runState is what a player remembers of a run.
type runState struct {
	id       events.ID
	repo     events.Repo
	stage    int
	attempts map[events.Stage]int
	settled  bool
	head     string
	approved string // head that the Owner approved
	jobs     []events.ID

	decision     events.ID // the newest decision, its kind, and the commit it is about
	decisionKind events.DecisionKind
	decisionHead string
}

// stepRun records what nextEvents returns.
func (p *Player) stepRun(ctx context.Context, r *runState) error {
	facts := r.nextEvents(p)
	err := p.record(ctx, r.id, facts...)
	if err == nil {
		r.apply(facts)
	}
	return err
}

func (r *runState) enter(stage int) events.Event {
	s := events.Stages()[stage]
	return events.RunStageEntered{Stage: s, Attempt: r.attempts[s] + 1}
}

// nextEvents returns random events for a run: mostly progress, at times events that the aggregate refuses.
func (r *runState) nextEvents(p *Player) []events.Event {
	stage := events.Stages()[r.stage]
	last := r.stage == len(events.Stages())-1
	switch luck := p.random.IntN(100); {
	case luck < 45 && r.stage == 0:
		return Analyzing(p.slot())
	case luck < 45 && r.settled && !last:
		return []events.Event{r.enter(r.stage + 1)}
	case luck < 40 && last && r.approved != "":
		return Merged(r.approved)[:1+p.random.IntN(4)]
	case luck < 43 && last:
		return []events.Event{pick(p, []events.Event{
			events.RunMergeApprovalVoided{Head: r.head, Reason: p.text()}, events.RunMergePostponed{Head: r.head, Reason: "base_moved"},
		})}
	case luck < 50 && last:
		return []events.Event{r.raise(p, events.MergeApproval)}
	case luck < 55 && !last:
		return Worked(stage, r.attempts[stage], r.headAfter(p, stage))
	case luck < 58:
		return []events.Event{events.RunStageFailed{Stage: stage, Attempt: r.attempts[stage], Reason: p.text()}}
	case luck < 62 && r.stage > 1:
		return []events.Event{r.enter(1 + p.random.IntN(r.stage))} // again, or an earlier stage
	case luck < 66:
		return []events.Event{pick(p, []events.Event{
			events.RunCancelled{Repo: r.repo.ID, Reason: p.text()}, events.RunRejected{Repo: r.repo.ID, Reason: p.text()},
			events.RunFailed{Repo: r.repo.ID, Stage: stage, Reason: p.text()},
		})}
	case luck < 76:
		return []events.Event{Cost(p.random.Int64N(100))}
	}
	return r.eventsWithinStage(p)
}

// eventsWithinStage returns random events that do not leave the current stage.
func (r *runState) eventsWithinStage(p *Player) []events.Event {
	job := NewID()
	head := fmt.Sprintf("%08x", p.random.Uint32())
	return pick(p, [][]events.Event{
		{events.RunFactsRecorded{Facts: []string{p.text()}}, events.RunPlanRecorded{Summary: p.text(), Steps: []string{}}},
		{events.RunBudgetSet{Cents: p.random.Int64N(1000), ComputeMS: p.random.Int64N(1 << 40), Rounds: p.random.IntN(9)}},
		{events.RunEstimated{When: events.EstimatedQueued, Size: "small", Cents: &events.EstimateSpread{P50: 1, P80: 2},
			Basis: []events.ID{job}}},
		{events.RunBranchCreated{Branch: "run/" + p.text()}, events.RunPullRequestOpened{Number: 1 + p.random.IntN(99)}},
		{events.RunCommitsPushed{Head: head, Base: "b", Files: []events.FileChange{{Path: p.text(), Added: 1}, {Path: "b", Removed: 2}},
			By: events.PushedByLoop}},
		{events.RunCommitsPushed{Head: head, Base: "b", By: events.PushedByPerson}},
		{events.RunGuardrailsChecked{Head: r.head, Policy: Policy, Status: "clean", Checks: []events.Guardrail{}},
			events.RunReviewed{Head: r.head, Verdict: "pass"}},
		{events.RunWaiting{Code: events.WaitEngine, Detail: p.text()}},
		{events.RunGuardrailsChecked{Head: r.head, Policy: Policy, Status: "blocked",
			Checks: []events.Guardrail{{Check: "c", Status: "block", Findings: []events.GuardrailFinding{{Path: p.text()}}}}}},
		{events.RunJobRequested{Job: job, Name: "implement " + p.text(), Head: Base, Purpose: events.JobImplements, Attempt: 1}},
		{events.RunJobSettled{Job: pick(p, r.jobs), Status: "succeeded", ComputeMS: p.random.Int64N(1 << 40)}},
		{r.raiseDecision(p)},
		{events.RunHumanIntervened{Repo: r.repo.ID, What: events.InterventionPush}},
	})
}

// raiseDecision returns a decision of a random kind, which the stage may not allow.
func (r *runState) raiseDecision(p *Player) events.Event {
	return r.raise(p, pick(p, []events.DecisionKind{events.FactReview, events.MergeApproval, events.ProtectedPathOnce}))
}

func (r *runState) raise(p *Player, about events.DecisionKind) events.Event {
	e := events.DecisionRaised{Decision: NewID(), About: about, Question: p.text()}
	if about != events.FactReview {
		e.Head = r.head
	}
	return e
}

// headAfter returns the head of the run once a stage has done its work.
func (r *runState) headAfter(p *Player, stage events.Stage) string {
	if stage == events.StageImplementing {
		return fmt.Sprintf("%08x", p.random.Uint32())
	}
	return r.head
}

// apply updates the state after events were recorded.
func (r *runState) apply(facts []events.Event) {
	for _, f := range facts {
		switch f := f.(type) {
		case events.RunStageEntered:
			r.stage, r.settled, r.attempts[f.Stage] = f.Stage.Index(), false, f.Attempt
		case events.RunStageSucceeded, events.RunStageFailed:
			r.settled = true
		case events.RunCommitsPushed:
			r.head, r.approved = f.Head, ""
		case events.RunJobRequested:
			r.jobs = append(r.jobs, f.Job)
		case events.DecisionRaised:
			r.decision, r.decisionKind, r.decisionHead = f.Decision, f.About, f.Head
		}
	}
}
