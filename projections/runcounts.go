package projections

import (
	"svc/events"
	"svc/projections/fold"
)

// A runCount is how many runs a repository has. It is kept by a followed view
// of its own, so that the length of a list costs the same however long it is.
type runCount struct {
	Workspace events.ID `db:"workspace_id"`
	Repo      events.ID `db:"repo_id"`
	Active    int       `db:"active"`
	Terminal  int       `db:"terminal"`
}

var runCounts = &fold.Table[events.ID, runCount]{
	View: "run_counts", KeptBy: fold.Followed, Key: "repo_id",
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
