package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/credentials"
	"svc/engine/client"
	"svc/events"
	"svc/input"
	"svc/loop/watch"
)

// doWith is do with a change that is sent along.
func doWith[In, Out any](ctx context.Context, r *runner, kind client.Kind, in In, change io.Reader) (*Out, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	repo, token, err := r.Credentials.Reveal(ctx, r.workspace, r.p.Repo.ID, events.WriteCredential)
	switch {
	case errors.Is(err, credentials.ErrUnreadable):
		return nil, r.pause(ctx, events.PauseCredential, "Its credential cannot be opened any more. Replace it.")
	case err != nil:
		return nil, err
	}
	step := watch.Step(r.workspace, r.run, r.p.Repo.ID, &repo, token, stepTime)
	out, err := client.Do[In, Out](ctx, r.Engine, kind, step, in, change, nil)
	if err != nil {
		return nil, r.classify(ctx, err)
	}
	return &out, nil
}

// classify pauses the repository if the error is not the run's, and returns what the run does about it.
func (r *runner) classify(ctx context.Context, err error) error {
	f, ok := errors.AsType[*client.Failure](err)
	if !ok || f.Class != client.Surroundings {
		return err
	}
	code := events.PauseUnhealthy
	switch f.Code {
	case client.CodeCredential, client.CodeNoRepository:
		code = events.PauseCredential
	case client.CodeIdentity:
		code = events.PauseIdentity
	case client.CodePolicy:
		return &waiting{events.WaitPolicy, f.Message}
	}
	return r.pause(ctx, code, f.Message)
}

// pause pauses the repository. It returns an error, since the run cannot go on.
func (r *runner) pause(ctx context.Context, code events.PauseCode, why string) error {
	if _, err := r.Commands.PauseRepo(ctx, commands.PauseRepo{Meta: r.meta(), Repo: r.p.Repo.ID, Reason: why, Code: code}); err != nil {
		return fmt.Errorf("pause repository %s: %w", r.p.Repo.ID, err)
	}
	return commands.ErrRunMoved // it is decided again, by the paused repository
}

// do has the engine do a step, and records what came of it.
func (r *runner) do(ctx context.Context, s Step) error {
	facts, err := stepsOf[s.Kind](r, ctx, s)
	if f, ok := errors.AsType[*client.Failure](err); ok && f.Class == client.Permanent {
		facts, err = r.refused(ctx, s.Kind, f)
	}
	if err != nil || facts == nil {
		return err
	}
	return r.record(ctx, facts...)
}

// stepsOf has the function that does each step and returns the facts to record.
var stepsOf = map[client.Kind]func(*runner, context.Context, Step) ([]events.Event, error){
	client.StepIssue:   (*runner).readIssue,
	client.StepCommit:  (*runner).commit,
	client.StepInspect: (*runner).inspect,
	client.StepPropose: (*runner).propose,
	client.StepReady:   (*runner).ready,
	client.StepMerge:   (*runner).merge,
	client.StepTidy:    (*runner).tidy,
	stepConsult:        (*runner).consulted,
}

// refused returns the facts that follow if a step can never succeed as it was asked for.
func (r *runner) refused(_ context.Context, kind client.Kind, f *client.Failure) ([]events.Event, error) {
	switch {
	case f.Code == client.CodeHeadMoved:
		r.wantsLook = true
		if kind == client.StepMerge { // while it merges, nothing that people push counts
			return []events.Event{events.RunMergePostponed{Head: r.p.Head, Reason: "head_moved"}}, nil
		}
		if r.movedAt == r.p.Version { // a look has seen nothing of it
			return nil, &client.Failure{Class: client.Transient, Code: client.CodeHostLag, Message: f.Message}
		}
		r.movedAt = r.p.Version
		return nil, nil
	case f.Code == client.CodeBaseMoved && kind == client.StepMerge:
		return []events.Event{events.RunMergePostponed{Head: r.p.Head, Reason: "base_moved"}}, nil
	case f.Code == client.CodeSecret:
		return again(r.p, Surroundings{Repo: r.repo}, events.FailGuardrails, clean(f.Message)).Record, nil
	case kind == client.StepMerge:
		return r.unmergeable(f.Message), nil
	case kind == client.StepTidy:
		return []events.Event{events.RunTidied{PullRequest: "left", Branch: "left"}}, nil
	}
	return failed(r.p, failCode(f.Code), f.Message), nil
}

// unmergeable ends a run that the code host refuses to merge.
func (r *runner) unmergeable(why string) []events.Event {
	facts := []events.Event{events.RunMergePostponed{Head: r.p.Head, Reason: "host_refused", Detail: clean(why)}}
	if r.p.Stop != nil {
		return facts // it is cancelled
	}
	return append(facts, failed(r.p, events.FailHost, "The code host refuses the merge: "+clean(why))...)
}

func failCode(code string) events.FailCode {
	switch code {
	case client.CodeChange:
		return events.FailNoPatch
	case client.CodeNoChange:
		return events.FailNoChange
	}
	return events.FailHost
}

// readIssue reads the issue, and the base with its policy.
func (r *runner) readIssue(ctx context.Context, _ Step) ([]events.Event, error) {
	number := r.p.Issue
	if r.p.Body != "" || r.repo.Host.Kind == events.HostGit {
		number = 0 // it exists only here
	}
	out, err := do[client.IssueInput, client.IssueResult](ctx, r, client.StepIssue, client.IssueInput{
		Number: number, Branch: r.repo.Settings.Branch, Policy: policyOf(r.repo.Settings),
	})
	if err != nil {
		return nil, err
	}
	read := events.RunIssueRead{Title: r.p.Title, Body: r.p.Body, Open: true}
	if i := out.Issue; i != nil {
		read = events.RunIssueRead{
			Title: clean(i.Title), Body: input.Document(i.Body, maxBody), Open: i.Open, URL: i.URL, Author: clean(i.Author),
			Labels: cleanAll(i.Labels),
		}
	}
	base, err := r.baseRead(r.repo.Settings.Branch, out.Base, out.SHA, out.Policy)
	if err != nil {
		return nil, err
	}
	return []events.Event{read, base}, nil
}

// commit commits the change of this round: the patch of the issue, or what a job made.
func (r *runner) commit(ctx context.Context, s Step) ([]events.Event, error) {
	work := written{change: []byte(patchOf(r.p.IssueRead.Body)), message: r.p.IssueRead.Title, at: r.p.QueuedAt(), parent: parentOf(r.p)}
	if !s.Job.IsZero() {
		var facts []events.Event
		var err error
		if work, facts, err = r.readWork(ctx, s.Job); err != nil || work.change == nil {
			return facts, err
		}
	}
	policy, _, err := r.policy(ctx)
	if err != nil {
		return nil, err
	}
	branch := r.branch()
	at := work.at.Add(time.Duration(r.p.Round()) * time.Second)
	out, err := doWith[client.CommitInput, client.CommitResult](ctx, r, client.StepCommit, client.CommitInput{
		Parent: work.parent, Branch: branch, Expected: r.p.Head, Author: author, At: at.Truncate(time.Second), Base: r.p.Base.Commit,
		Message: fmt.Sprintf("%s\n\nRun: %s\nIssue: #%d\n", work.message, r.run, r.p.Issue), Policy: &policy,
	}, strings.NewReader(string(work.change)))
	if err != nil {
		return nil, err
	}
	var facts []events.Event
	if r.p.Branch == "" {
		facts = append(facts, events.RunBranchCreated{Branch: branch})
	}
	return append(append(facts, pushed(out, r.p.Base.Commit, events.PushedByLoop)), work.facts...), nil
}

// maxBody is how many bytes of an issue a run reads.
const maxBody = 256 << 10

// branch is the run's branch, also before it was recorded.
func (r *runner) branch() string { return cmp.Or(r.p.Branch, branchFolder+"/"+r.run.String()) }

// branchFolder has the branches of runs.
const branchFolder = "run"

// author is who the commits of runs name.
const author = "Workspace Service <loop@workspace-service.invalid>"

func pushed(c *client.CommitResult, base, by string) events.RunCommitsPushed {
	e := events.RunCommitsPushed{Head: c.Head, Tree: c.Tree, Base: base, By: by, Files: []events.FileChange{}}
	for _, f := range c.Files {
		e.Files = append(e.Files, events.FileChange{
			Path: clean(f.Path), Change: events.FileChangeKind(f.Change), Added: f.Added, Removed: f.Removed,
		})
	}
	if c.Total > len(c.Files) {
		e.Total = &events.ChangeTotal{Files: c.Total, Added: c.Added, Removed: c.Removed}
	}
	return e
}

// inspect checks a head against the guardrails. If it is not the run's head, a person has pushed it.
func (r *runner) inspect(ctx context.Context, s Step) ([]events.Event, error) {
	policy, sha, err := r.policy(ctx)
	if err != nil {
		return nil, err
	}
	out, err := do[client.InspectInput, client.InspectResult](ctx, r, client.StepInspect, client.InspectInput{
		Base: r.p.Base.Commit, Head: s.Head, Branch: r.p.Branch, Policy: policy, SHA: sha,
	})
	if err != nil {
		return nil, err
	}
	checked := guardrails(out, s.Head, sha)
	if s.Head == r.p.Head {
		return []events.Event{checked}, nil
	}
	out.Head = s.Head
	facts := []events.Event{
		pushed(&out.CommitResult, r.p.Base.Commit, events.PushedByPerson),
		events.RunHumanIntervened{What: events.InterventionPush},
		checked,
	}
	return append(facts, afterPush(r.p)...), nil
}

// afterPush has what a person pushed built again.
func afterPush(p *aggregates.Progress) []events.Event {
	if p.Stage.Index() <= events.StageBuildFarm.Index() {
		return nil
	}
	return reenter(p, events.StageBuildFarm, "A person pushed to the branch.")
}

func guardrails(in *client.InspectResult, head, policy string) events.RunGuardrailsChecked {
	e := events.RunGuardrailsChecked{Head: head, Policy: policy, Status: in.Status, Checks: []events.Guardrail{}}
	for _, c := range in.Checks {
		g := events.Guardrail{Check: c.Check, Status: c.Status, Note: clean(c.Note)}
		for _, f := range c.Findings {
			g.Findings = append(g.Findings, events.GuardrailFinding{Path: clean(f.Path), Rule: clean(f.Rule)})
		}
		e.Checks = append(e.Checks, g)
	}
	return e
}

// marker is the text by which the run's pull request and comment are found again.
func (r *runner) marker() string { return "svc-run:" + r.run.String() }

func (r *runner) page() string {
	return fmt.Sprintf("%s/w/%s/runs/%s", r.Origin, r.workspace, r.run)
}

// propose opens the pull request.
func (r *runner) propose(ctx context.Context, _ Step) ([]events.Event, error) {
	body := fmt.Sprintf("Closes #%d.\n\n%s\n\nWritten and tested by [a run](%s). A person has to approve the merge there.",
		r.p.Issue, r.p.Plan.Summary, r.page())
	out, err := do[client.ProposeInput, client.ProposeResult](ctx, r, client.StepPropose, client.ProposeInput{
		Branch: r.p.Branch, Head: r.p.Head, Base: r.p.Base.Branch, Title: r.p.IssueRead.Title, Body: body, Marker: r.marker(), Issue: r.p.Issue,
	})
	if err != nil {
		return nil, err
	}
	return []events.Event{events.RunPullRequestOpened{Number: out.Number}}, nil
}

// ready makes a candidate on the present base, under the policy that is in force there.
func (r *runner) ready(ctx context.Context, _ Step) ([]events.Event, error) {
	s := r.repo.Settings
	out, err := do[client.ReadyInput, client.ReadyResult](ctx, r, client.StepReady, client.ReadyInput{
		Branch: r.p.Branch, Head: r.p.Head, Base: r.p.Base.Branch, Lane: r.lane(), Method: string(s.Method), Landing: string(s.Landing),
		Message: r.mergeMessage(), Author: author, At: r.p.QueuedAt().Truncate(time.Second), Policy: policyOf(s),
	})
	if err != nil {
		return nil, err
	}
	base, err := r.baseRead(r.p.Base.Branch, out.Base, out.SHA, out.Policy)
	if err != nil {
		return nil, err
	}
	if len(out.Conflicts) > 0 {
		finding := "It conflicts with " + r.p.Base.Branch + " in " + clean(strings.Join(out.Conflicts[:min(len(out.Conflicts), 20)], ", ")) + "."
		return again(r.p, Surroundings{Repo: r.repo}, events.FailRounds, finding, base).Record, nil
	}
	var facts []events.Event
	if out.SHA != r.p.Base.Policy {
		facts = append(facts, base, guardrails(&out.Guardrails, r.p.Head, out.SHA))
	}
	if out.SHA != r.p.Base.Policy && out.Guardrails.Status != "clean" {
		return facts, nil // the new policy blocks it
	}
	return append(facts, events.RunMergeCandidate{Head: r.p.Head, Base: out.Base, Commit: out.Commit, Tree: out.Tree}), nil
}

// lane is the branch that holds the candidate while it is tested.
func (r *runner) lane() string { return "svc-lane/" + r.run.String() }

func (r *runner) mergeMessage() string {
	title := r.p.IssueRead.Title
	if r.p.PullRequest > 0 {
		title = fmt.Sprintf("%s (#%d)", title, r.p.PullRequest)
	}
	return fmt.Sprintf("%s\n\nRun: %s\nIssue: #%d\n", title, r.run, r.p.Issue)
}

// merge merges the candidate, or finds that it is merged.
func (r *runner) merge(ctx context.Context, _ Step) ([]events.Event, error) {
	s, c := r.repo.Settings, r.p.Candidate
	title, message, _ := strings.Cut(r.mergeMessage(), "\n\n")
	out, err := do[client.MergeInput, client.MergeResult](ctx, r, client.StepMerge, client.MergeInput{
		PullRequest: r.p.PullRequest, Branch: r.p.Branch, Head: r.p.Head, Base: r.p.Base.Branch,
		BaseCommit: c.Base, Commit: c.Commit, Tree: c.Tree,
		Landing: string(s.Landing), Method: string(s.Method), Title: title, Message: message,
	})
	if err != nil {
		return nil, err
	}
	merged := events.RunMerged{
		Head: r.p.Head, MergeCommit: out.Commit, Tree: out.Tree, Base: out.FirstParent, Method: string(s.Method),
		Outside: out.Outside, By: clean(out.By), Untested: out.Tree != c.Tree,
	}
	return []events.Event{events.RunStageSucceeded{Stage: events.StageMerge, Attempt: r.p.Attempts[events.StageMerge]}, merged}, nil
}

// tidy closes what is left at the code host.
func (r *runner) tidy(ctx context.Context, _ Step) ([]events.Event, error) {
	out, err := do[client.TidyInput, client.TidyResult](ctx, r, client.StepTidy, client.TidyInput{
		Branch: r.branch(), Head: r.p.Head, Author: author, Lane: r.lane(), PullRequest: r.p.PullRequest,
		Close:   r.p.Status != events.RunStatusMerged,
		Comment: r.ending(), Issue: r.p.Issue, Marker: r.marker(),
	})
	if err != nil {
		return nil, err
	}
	return []events.Event{events.RunTidied{PullRequest: out.PullRequest, Branch: out.Branch}}, nil
}

// ending says on the issue how the run ended.
func (r *runner) ending() string {
	how := map[events.RunStatus]string{
		events.RunStatusMerged: "was merged", events.RunStatusRejected: "was rejected",
		events.RunStatusFailed: "failed", events.RunStatusCancelled: "was cancelled",
	}[r.p.Status]
	return fmt.Sprintf("[The run](%s) of this issue %s.", r.page(), how)
}
