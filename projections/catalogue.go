// Package projections contains the views: tables that answer queries about events.
//
// Each view has a file with its row type, the kinds of events it folds, and its fold function. Where
// these or its queries are long, they have files of their own, such as memberquery.go. Small views
// that belong together share a file. Packages auditlog, farmviews and runviews have those of the audit
// log, the build farm and runs. Package fold maintains views. They decide nothing, and dropping one
// loses nothing: package rebuild rebuilds it.
//
// To add a view, write a migration with its table, a file here, and an entry in [All].
package projections

import (
	"slices"
	"strings"

	"svc/events/store"
	"svc/projections/auditlog"
	"svc/projections/farmviews"
	"svc/projections/fold"
	"svc/projections/runviews"
)

// All returns every view, in the order in which they are rebuilt. Views that decisions about rights
// or uniqueness read are inline.
func All() []fold.View {
	return slices.Concat(
		[]fold.View{
			users, accounts, workspaces, deletedWorkspaces, members, memberCounts, memberWords, invitations, serviceAccounts, serviceTokens,
		},
		runviews.All(),
		[]fold.View{auditlog.View},
		farmviews.All(),
		[]fold.View{repos, globalKeys, uniqueKeys},
	)
}

// Followed returns the views that a [fold.Follower] maintains.
func Followed() []fold.View { return fold.ViewsWithMode(All(), fold.Followed) }

// followedNames is the names of the followed views as literals of SQL, with which the planner knows that
// there are few.
var followedNames = func() string {
	var list []string
	for _, v := range Followed() {
		list = append(list, `'`+v.Name()+`'`)
	}
	return strings.Join(list, ", ")
}()

// Inline returns the views that a store updates while it appends.
func Inline() []store.View { return fold.InlineViews(All()) }
