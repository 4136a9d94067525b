package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"svc/commands"
	"svc/dev/codehost"
	"svc/events"
)

const (
	idleRuns  = 1000
	idleRepos = 10
	// idleSettle is how long the runs wait before the measurement: until their repositories are looked at as seldom as at all.
	idleSettle = 4 * time.Minute
	idleTurn   = 2 * time.Minute
	idleGoal   = 0.01 // of a processor
)

// runIdle measures the processor time of the service and of the engine, with git, while many runs wait for approval.
func runIdle(ctx context.Context, s *suite) (result, error) {
	var repos []codehost.Repository
	for i := range idleRepos {
		repos = append(repos, newRepository(fmt.Sprintf("acme/idle%d", i), 0))
	}
	l, err := s.newLoopStack(ctx, repos)
	if err != nil {
		return result{}, err
	}
	defer l.stop()
	for i, r := range repos {
		n := int(idleRuns**scale) / idleRepos
		if err := l.addWaiting(ctx, r.Name, i*n+1, n); err != nil {
			return result{}, err
		}
	}
	if err := l.awaitSettled(ctx); err != nil {
		return result{}, err
	}
	shares := map[string][]float64{}
	r := result{}
	for range max(1, *rounds/2) {
		sum := 0.0
		for name, share := range l.shares(ctx) {
			shares[name] = append(shares[name], 100*share)
			sum += share
		}
		r.Ratios = append(r.Ratios, sum/idleGoal)
	}
	r.Note = map[string]any{}
	for name, list := range shares {
		r.Note[name+"_percent"] = twoDecimals(median(list))
	}
	return r, ctx.Err()
}

// addWaiting connects a repository, and adds n runs that wait for approval, with branches at the code host. Their places are
// those from slot on.
func (l *loopStack) addWaiting(ctx context.Context, name string, slot, n int) error {
	var repo struct{ ID string }
	err := l.call(ctx, "POST", "/api/v1/repos", map[string]any{
		"url": "http://" + l.codeHost + "/" + name, "credential": pushToken, "settings": map[string]any{"maxActive": 100},
	}, &repo)
	if err != nil {
		return err
	}
	id, err := events.ParseID(repo.ID)
	if err != nil {
		return err
	}
	h, err := newHandmade(ctx, l.file("handmade-"+filepath.Base(name)), l.codeHost, name)
	if err != nil {
		return err
	}
	s := &script{handmade: h, ctx: ctx}
	base := s.git("", "rev-parse", "main")
	head := s.git("work", "commit-tree", "main^{tree}", "-p", base)
	push := []string{"push", "--quiet", h.clone}
	var runs []events.ID
	for range n {
		run := events.NewID(time.Now())
		runs = append(runs, run)
		push = append(push, head+":refs/heads/run/"+run.String())
	}
	if s.git("", push...); s.err != nil {
		return s.err
	}
	log := newLog(l.db, notifyNobody)
	defer log.Close()
	loop := commands.New(log, time.Now)
	meta := commands.Meta{Workspace: l.team.id, Envelope: events.Envelope{Actor: commands.LoopOf(id), Origin: events.FromSystem}}
	var group errgroup.Group
	group.SetLimit(8)
	for i, run := range runs {
		group.Go(func() error {
			_, err := loop.QueueRun(ctx, commands.QueueRun{
				Meta: meta, Run: run, Repo: events.Repo{ID: id, Name: name}, IssueNumber: i + 1, IssueTitle: "Add a page",
			})
			if err == nil {
				_, err = loop.RecordRun(ctx, commands.RecordRun{Meta: meta, Run: run, Facts: waitingFacts(run, slot+i, i+1, base, head)})
			}
			return err
		})
	}
	return group.Wait()
}

// waitingFacts are what a run has recorded that waits for approval.
func waitingFacts(run events.ID, slot, number int, base, head string) []events.Event {
	policy := strings.Repeat("0", 64)
	list := []events.Event{
		events.RunStarted{Slot: slot, RepoSlot: number}, events.RunStageEntered{Stage: events.StageAnalyze, Attempt: 1},
		events.RunIssueRead{Title: "Add a page", Open: true},
		events.RunBaseRead{Branch: "main", Commit: base, Policy: policy, RequiredJobs: []string{}},
	}
	enter := func(from, to events.Stage, facts ...events.Event) {
		list = append(append(list, facts...), events.RunStageSucceeded{Stage: from, Attempt: 1}, events.RunStageEntered{Stage: to, Attempt: 1})
	}
	enter(events.StageAnalyze, events.StagePlan, events.RunFactsRecorded{Facts: []string{"It is missing."}})
	enter(events.StagePlan, events.StageImplementing, events.RunPlanRecorded{Summary: "Add it.", Steps: []string{"Add it"}},
		events.RunBudgetSet{Rounds: 3})
	enter(events.StageImplementing, events.StageBuildFarm, events.RunBranchCreated{Branch: "run/" + run.String()},
		events.RunCommitsPushed{Head: head, Base: base, Tree: base, By: events.PushedByLoop, Files: []events.FileChange{}},
		events.RunGuardrailsChecked{Head: head, Policy: policy, Status: "clean", Checks: []events.Guardrail{}})
	enter(events.StageBuildFarm, events.StageSelfReview)
	enter(events.StageSelfReview, events.StageMerge, events.RunReviewed{Head: head, Verdict: "pass"})
	return append(list, events.RunPullRequestOpened{Number: number},
		events.DecisionRaised{Decision: events.NewID(time.Now()), About: events.MergeApproval, Question: "Merge?", Head: head})
}

// awaitSettled waits until the service has looked at all runs, and then for idleSettle.
func (l *loopStack) awaitSettled(ctx context.Context) error {
	if err := awaitCaughtUp(ctx, l.db); err != nil {
		return err
	}
	for {
		var due int
		err := l.db.QueryRow(ctx, `select count(*) from run_steps where due_at < 'infinity' or claimed_by is not null`).Scan(&due)
		switch {
		case err != nil:
			return err
		case due == 0:
			return wait(ctx, idleSettle)
		}
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// shares returns the share of a processor that each process takes in idleTurn.
func (l *loopStack) shares(ctx context.Context) map[string]float64 {
	of := map[string]*serviceProcess{"rest": l.rest, "engine": l.engine}
	before, from := map[string]time.Duration{}, time.Now()
	for name, p := range of {
		before[name] = p.processorTime()
	}
	_ = wait(ctx, idleTurn) // the caller looks at ctx
	list := map[string]float64{}
	for name, p := range of {
		list[name] = (p.processorTime() - before[name]).Seconds() / time.Since(from).Seconds()
	}
	return list
}

// processorTime returns the processor time of the process and of the children that it has waited for, 0 if it has ended.
func (r *serviceProcess) processorTime() time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(r.command.Process.Pid), "stat"))
	if err != nil {
		return 0
	}
	_, p, err := parseStat(text)
	if err != nil {
		return 0
	}
	return p.cpuTime
}
