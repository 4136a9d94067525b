package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

// A Player does random things in a workspace, the kind that people, scripts
// and the loop do there. Several may play in one workspace.
type Player struct {
	*World
	random    *rand.Rand
	Workspace events.ID
	Owner     events.Actor
	Members   []events.ID
	Accounts  []events.ID
	Runs      []*life
	names     int
	guests    guests
}

// texts are what people write, among it what JSON, HTML and SQL have words for.
var texts = []string{"Fix date parsing", "Ñandú 🐘", `a "quoted" \ title`, "<b>&amp;</b>", "O'Hara; drop table runs", "tab\tand\nline",
	"\u2028", ""}

// Settle makes a workspace for players.
func (w *World) Settle(ctx context.Context, seed uint64) (*Player, error) {
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
		err = p.invites(ctx) // which nobody answers
	}
	return p, err
}

// Joins returns another player of the same workspace.
func (p *Player) Joins(seed uint64) *Player {
	return &Player{World: p.World, random: rand.New(rand.NewPCG(seed, 2)), Workspace: p.Workspace, Owner: p.Owner,
		names: int(seed) * 1_000_000}
}

func (p *Player) text() string { return texts[p.random.IntN(len(texts))] }

func pick[T any](p *Player, list []T) (v T) {
	if len(list) > 0 {
		v = list[p.random.IntN(len(list))]
	}
	return v
}

// Play does n things. Being refused is part of the game.
func (p *Player) Play(ctx context.Context, n int) error {
	for i := range n + n/3 {
		err := p.turn(ctx, i)
		if f := fault.As(err); f != nil &&
			(f.Kind == fault.Conflict || f.Kind == fault.NotFound || f.Kind == fault.Denied || f.Kind == fault.Invalid) {
			continue
		}
		if err != nil && fault.IsUnavailable(err) && !errors.Is(err, events.ErrOutcomeUnknown) { // somebody held a view for too long
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// turn lets members act three times, and then a guest.
func (p *Player) turn(ctx context.Context, i int) error {
	if i%4 < 3 {
		return p.one(ctx)
	}
	return p.guest(ctx)
}

func (p *Player) one(ctx context.Context) (err error) {
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
		err = p.account(ctx, o)
	case luck < 54:
		l := &life{id: NewID(), repo: events.Repo{ID: NewID(), Name: "acme/" + p.text() + "x"}, attempts: map[events.Stage]int{}}
		p.Runs = append(p.Runs, l)
		_, err = p.Commands.QueueRun(ctx, commands.QueueRun{
			Meta: Meta(p.Workspace, System), Run: l.id, Repo: l.repo, IssueNumber: 1 + p.random.IntN(999), IssueTitle: p.text(),
		})
	case luck < 60 && len(p.Runs) > 0:
		err = p.decide(ctx, o, p.Runs[max(0, len(p.Runs)-1-p.random.IntN(6))])
	case len(p.Runs) > 0:
		err = p.loop(ctx, p.Runs[max(0, len(p.Runs)-1-p.random.IntN(6))])
	}
	return err
}

// decide lets the Owner answer a run, right or wrong.
func (p *Player) decide(ctx context.Context, m commands.Meta, l *life) error {
	a := aggregates.Answer{Decision: l.asked, Action: pick(p, aggregates.Actions(l.about)), Note: p.text(), ExpectedHead: l.at}
	_, err := p.Commands.AnswerDecision(ctx, commands.AnswerDecision{Meta: m, Run: l.id, Answer: a})
	if err == nil && (a.Action == aggregates.ActionDeny || a.Action == aggregates.ActionRequestChanges) {
		l.stage, l.settled = events.StageImplementing.Index(), false
		l.attempts[events.StageImplementing]++
	}
	return err
}

func (p *Player) account(ctx context.Context, m commands.Meta) (err error) {
	account := pick(p, p.Accounts)
	switch luck := p.random.IntN(18); {
	case luck < 6:
		p.names++
		create := commands.CreateServiceAccount{
			Meta: m, Account: NewID(), Token: commands.NewServiceToken(), Name: fmt.Sprintf("bot-%d", p.names),
			Scopes: []events.Scope{events.ReadAPI, events.SubmitJobs}[p.random.IntN(2):],
		}
		p.Accounts = append(p.Accounts, create.Account)
		_, err = p.Commands.CreateServiceAccount(ctx, create)
	case luck < 12:
		_, err = p.Commands.RotateServiceAccount(ctx, commands.RotateServiceAccount{Meta: m, Account: account, Token: commands.NewServiceToken()})
	case luck < 15:
		_, err = p.Commands.RevokeServiceAccount(ctx, commands.RevokeServiceAccount{Meta: m, Account: account})
	default:
		_, err = p.Commands.NoteStaleToken(ctx, commands.NoteStaleToken{Meta: Meta(p.Workspace, System), Account: account, Tail: "tail"})
	}
	return err
}

// Tell plays runs whose ends luck would leave to chance: one that goes well in
// the second attempt, one that waits for a person, one that was answered and one
// that is stopped before.
func (p *Player) Tell(ctx context.Context) error {
	asks := func(id events.ID) []events.Event {
		return []events.Event{
			events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1},
			events.DecisionRaised{Decision: id, About: events.FactReview, Question: p.text()},
		}
	}
	answered := NewID()
	for _, story := range [][]events.Event{Merged(), asks(NewID()), append(asks(NewID()), events.RunCancelled{}), asks(answered)} {
		run := commands.QueueRun{
			Meta: Meta(p.Workspace, System), Run: NewID(), Repo: events.Repo{ID: NewID(), Name: "acme/web"}, IssueNumber: 1,
		}
		if _, err := p.Commands.QueueRun(ctx, run); err != nil {
			return err
		}
		if _, err := p.Commands.RecordRun(ctx, commands.RecordRun{Meta: run.Meta, Run: run.Run, Facts: story}); err != nil {
			return err
		}
		last, _ := story[len(story)-1].(events.DecisionRaised)
		if last.Decision != answered {
			continue
		}
		_, err := p.Commands.AnswerDecision(ctx, commands.AnswerDecision{
			Meta: Meta(p.Workspace, p.Owner), Run: run.Run, Answer: aggregates.Answer{Decision: answered, Action: aggregates.ActionConfirm},
		})
		if err != nil {
			return err
		}
	}
	return p.farm(ctx)
}

// Merged is what happens to a run that is merged.
func Merged() (facts []events.Event) {
	for _, stage := range events.Stages()[1:] {
		facts = append(facts, events.RunStageEntered{Stage: stage, Attempt: 1})
		if stage == events.StageBuildFarm {
			facts = append(facts, events.RunStageFailed{Stage: stage, Attempt: 1, Reason: "luck"}, events.RunStageEntered{Stage: stage, Attempt: 2})
			facts = append(facts, events.RunStageSucceeded{Stage: stage, Attempt: 2})
		} else if stage != events.StageMerge {
			facts = append(facts, events.RunStageSucceeded{Stage: stage, Attempt: 1})
		}
	}
	return append(facts,
		events.RunCommitsPushed{Head: "h", Base: "b"}, events.RunMergeApproved{Head: "h"},
		events.RunMergeAttempted{Head: "h"}, events.RunMerged{Repo: NewID(), Head: "h", MergeCommit: "m"})
}

// A life is a run as its player knows it.
type life struct {
	id       events.ID
	repo     events.Repo
	stage    int
	attempts map[events.Stage]int
	settled  bool
	head     string
	jobs     []events.ID

	asked events.ID // the newest question, what it is about, and of which commit
	about events.DecisionKind
	at    string
}

// loop lets a run go on, mostly forwards.
func (p *Player) loop(ctx context.Context, l *life) error {
	facts := l.next(p)
	_, err := p.Commands.RecordRun(ctx, commands.RecordRun{Meta: Meta(p.Workspace, System), Run: l.id, Facts: facts})
	if err == nil {
		l.took(facts)
	}
	return err
}

func (l *life) enter(stage int) events.Event {
	s := events.Stages()[stage]
	return events.RunStageEntered{Stage: s, Attempt: l.attempts[s] + 1}
}

// next is what may follow, without a promise that it does.
func (l *life) next(p *Player) []events.Event {
	stage := events.Stages()[l.stage]
	last := l.stage == len(events.Stages())-1
	switch luck := p.random.IntN(100); {
	case luck < 45 && l.stage == 0, luck < 45 && l.settled && !last:
		return []events.Event{l.enter(l.stage + 1)}
	case luck < 40 && last && l.head != "":
		return []events.Event{events.RunMergeApproved{Head: l.head}, events.RunMergeAttempted{Head: l.head},
			events.RunMerged{Repo: l.repo.ID, Head: l.head, MergeCommit: "m"}}[:1+p.random.IntN(3)]
	case luck < 43 && last:
		return []events.Event{events.RunMergeApproved{Head: l.head}, events.RunMergeAttempted{Head: l.head},
			events.RunMergeApprovalVoided{Head: l.head, Reason: p.text()}}
	case luck < 55:
		return []events.Event{events.RunStageSucceeded{Stage: stage, Attempt: l.attempts[stage]}}
	case luck < 58:
		return []events.Event{events.RunStageFailed{Stage: stage, Attempt: l.attempts[stage], Reason: p.text()}}
	case luck < 62 && l.stage > 1:
		return []events.Event{l.enter(1 + p.random.IntN(l.stage))} // once more, or back
	case luck < 66:
		return []events.Event{pick(p, []events.Event{
			events.RunCancelled{Repo: l.repo.ID, Reason: p.text()}, events.RunRejected{Repo: l.repo.ID, Reason: p.text()},
			events.RunFailed{Repo: l.repo.ID, Stage: stage, Reason: p.text()},
		})}
	case luck < 76:
		return []events.Event{events.RunCostRecorded{Repo: l.repo.ID, Cents: p.random.Int64N(100), Source: "compute", Quantity: 1}}
	}
	return l.aside(p)
}

// aside is what happens within a stage.
func (l *life) aside(p *Player) []events.Event {
	job := NewID()
	head := fmt.Sprintf("%08x", p.random.Uint32())
	return pick(p, [][]events.Event{
		{events.RunFactsRecorded{Facts: []string{p.text()}}, events.RunPlanRecorded{Summary: p.text(), Steps: []string{}}},
		{events.RunBudgetSet{Cents: p.random.Int64N(1000), ComputeMS: p.random.Int64N(1 << 40), Rounds: p.random.IntN(9)}},
		{events.RunBranchCreated{Branch: "run/" + p.text()}, events.RunPullRequestOpened{Number: 1 + p.random.IntN(99)}},
		{events.RunCommitsPushed{Head: head, Base: "b", Files: []events.FileChange{{Path: p.text(), Added: 1}, {Path: "b", Removed: 2}}}},
		{events.RunCommitsPushed{Head: head, Base: "b", By: events.PushedByPerson}},
		{events.RunGuardrailsChecked{Head: l.head, Status: "clean", Checks: []events.Guardrail{}},
			events.RunReviewed{Head: l.head, Verdict: "pass"}},
		{events.RunGuardrailsChecked{Head: l.head, Status: "blocked",
			Checks: []events.Guardrail{{Check: "c", Status: "block", Findings: []events.GuardrailFinding{{Path: p.text()}}}}}},
		{events.RunJobRequested{Job: job, Name: p.text(), Head: l.head}},
		{events.RunJobSettled{Job: pick(p, l.jobs), Status: "succeeded", ComputeMS: p.random.Int64N(1 << 40)}},
		{l.question(p)},
		{events.RunHumanIntervened{Repo: l.repo.ID, What: events.InterventionPush}},
	})
}

// question asks what belongs to the stage, or nearly.
func (l *life) question(p *Player) events.Event {
	about := pick(p, []events.DecisionKind{events.FactReview, events.MergeApproval, events.ProtectedPathOnce})
	e := events.DecisionRaised{Decision: NewID(), About: about, Question: p.text()}
	if about != events.FactReview {
		e.Head = l.head
	}
	return e
}

func (l *life) took(facts []events.Event) {
	for _, f := range facts {
		switch f := f.(type) {
		case events.RunStageEntered:
			l.stage, l.settled, l.attempts[f.Stage] = f.Stage.Index(), false, f.Attempt
		case events.RunStageSucceeded, events.RunStageFailed:
			l.settled = true
		case events.RunCommitsPushed:
			l.head = f.Head
		case events.RunJobRequested:
			l.jobs = append(l.jobs, f.Job)
		case events.DecisionRaised:
			l.asked, l.about, l.at = f.Decision, f.About, f.Head
		}
	}
}
