package runviews

import (
	"svc/events"
	"svc/projections/fold"
)

// A runCount has the numbers of a repository's runs. It is a view of its own so that counting costs
// the same however long the list is.
type runCount struct {
	Workspace events.ID `db:"workspace_id"`
	Repo      events.ID `db:"repo_id"`
	Active    int       `db:"active"`
	Terminal  int       `db:"terminal"`
}

var runCounts = &fold.Table[events.ID, runCount]{
	View: "run_counts", Updated: fold.Followed, Key: "repo_id",
	Kinds: []string{"run"},
	Keys: func(r events.Record) []events.ID {
		switch e := r.Event.(type) {
		case events.RunQueued:
			return []events.ID{e.Repo.ID}
		case events.RunMerged:
			return []events.ID{e.Repo}
		case events.RunRejected:
			return []events.ID{e.Repo}
		case events.RunFailed:
			return []events.ID{e.Repo}
		case events.RunCancelled:
			return []events.ID{e.Repo}
		}
		return nil
	},
	Apply: func(repo events.ID, row *runCount, r events.Record) *runCount {
		after := runCount{Workspace: r.Workspace, Repo: repo}
		if row != nil {
			after = *row
		}
		if events.EndsRun(r.Event) {
			after.Active--
			after.Terminal++
		} else {
			after.Active++
		}
		return &after
	},
}
