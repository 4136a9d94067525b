package dashboard

import (
	"context"
	"slices"

	"svc/ui/client"
	"svc/ui/page"
)

// A step leads from a new workspace to its first merged change.
type step struct {
	icon, title, text string
	done              bool
	href, label       string // where it is taken
	blocked           string // why the person cannot take it, "" if they can
}

// setUp is what the views tell of how far a new workspace is.
type setUp struct {
	connected, hasRunner, hasPeople, queued, merged bool
}

// maxFinished is the number of finished runs from which on a workspace is not asked about its first steps.
const maxFinished = 100

// loadSteps returns the steps to the first merged change, none once there is one. A workspace that merged something lately
// asks for nothing more.
func (d *pageData) loadSteps(v *page.Visit) error {
	if slices.ContainsFunc(d.Recent, isMerged) {
		return nil
	}
	repos, err := client.Decode[client.RepoList](v.API.ListRepos(v.Context(), nil))
	if err != nil {
		return err
	}
	var s setUp
	var finished int64
	for _, r := range repos.Items {
		s.connected = s.connected || r.Status == client.RepoRunsStatusActive || r.Status == client.RepoRunsStatusPaused
		s.queued = s.queued || r.Active+r.Terminal > 0
		finished += r.Terminal
	}
	if finished > maxFinished {
		return nil
	}
	err = v.Load(func(ctx context.Context) error {
		if finished == 0 {
			return nil
		}
		list, err := client.Decode[client.RunList](v.API.ListRuns(ctx, &client.ListRunsParams{
			Status: client.ListRunsParamsStatusTerminal, Limit: client.Optional(int64(maxFinished)),
		}))
		s.merged = slices.ContainsFunc(list.Items, isMerged)
		return err
	}, func(ctx context.Context) error {
		if !d.Farm.On {
			return nil
		}
		list, err := client.Decode[client.RunnerList](v.API.ListRunners(ctx, &client.ListRunnersParams{Limit: new(int64(1))}))
		s.hasRunner = list.Total > 0
		return err
	}, func(ctx context.Context) error {
		list, err := client.Decode[client.MemberList](v.API.ListMembers(ctx, &client.ListMembersParams{Limit: new(int64(1))}))
		s.hasPeople = list.Total > 1
		return err
	})
	if err != nil || s.merged {
		return err
	}
	if !s.hasPeople {
		list, err := client.Decode[client.ListInvitation](v.API.ListInvitations(v.Context(), &client.ListInvitationsParams{Limit: new(int64(1))}))
		if err != nil {
			return err
		}
		s.hasPeople = list.Total > 0
	}
	d.steps = steps(v, s, d.Farm.On)
	return nil
}

func isMerged(r client.Run) bool { return r.Status == client.RunStatusMerged }

// steps returns the steps in the order in which they are best taken.
func steps(v *page.Visit, s setUp, farmOn bool) []step {
	managers := func(what string) string {
		if v.MayManage() {
			return ""
		}
		return page.OnlyManagers(what)
	}
	queuer, approver := "", ""
	if !v.MayQueue() {
		queuer = page.OnlyManagers("queue an issue")
	}
	if !v.Workspace.You.CanApproveLoops {
		approver = "Only people who may approve loops can approve a merge."
	}
	runner := step{
		icon: "server", title: "Add a runner", text: "A machine of yours that runs the jobs: tests, and commands that change code.",
		done: s.hasRunner, href: v.Path("farm", "enroll"), label: "Add a runner", blocked: managers("add a runner"),
	}
	if !farmOn {
		runner.blocked = "An operator has to set up the build farm first."
	}
	return []step{
		{
			icon: "book-marked", title: "Connect a repository", text: "Runs take its issues to merged pull requests.",
			done: s.connected, href: v.Path("settings", "repositories", "new"), label: "Connect a repository",
			blocked: managers("connect a repository"),
		},
		runner,
		{
			icon: "users", title: "Invite people", text: "Whoever answers what runs ask, and approves what they merge.",
			done: s.hasPeople, href: v.Path("members") + "#invite-email", label: "Invite people", blocked: managers("invite people"),
		},
		{
			icon: "circle-dot", title: "Queue an issue", text: "A run analyzes, plans, implements, builds and reviews it.",
			done: s.queued, href: v.Path("backlog"), label: "Open the backlog", blocked: queuer,
		},
		{
			icon: "git-merge", title: "Merge the first change",
			text: "The run asks under Needs You. Nothing is merged before a person has approved it.",
			done: s.merged, href: v.Path("needs"), label: "Open Needs You", blocked: approver,
		},
	}
}

// nextStep returns the index of the first step that is to be taken and that the person can take, -1 if there is none.
func nextStep(list []step) int {
	return slices.IndexFunc(list, func(s step) bool { return !s.done && s.blocked == "" })
}

// countDone returns how many steps are done.
func countDone(list []step) (n int64) {
	for _, s := range list {
		if s.done {
			n++
		}
	}
	return n
}
