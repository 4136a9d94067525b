// Package projections has the views: tables that answer questions about events.
//
// Each view has a file: its rows, the nouns of the events that it takes in, its
// fold, and its questions. Package fold keeps them. Views decide nothing, and
// dropping one loses nothing: [fold.Rebuild] makes it anew.
//
// A new view is a table in a migration, a file here, and a line in [All].
package projections

import (
	"svc/events/store"
	"svc/projections/fold"
)

// All returns every view, in the order in which they are rebuilt. Inline are
// those that a decision about rights or uniqueness reads.
func All() []fold.View {
	return []fold.View{
		users, accounts, workspaces, members, memberCounts, memberWords, invitations, serviceAccounts, serviceTokens,
		runs, runCounts, decisions, outcomes, audit,
		authorities, enrollments, enrollmentCounts, runners, runnerCounts,
		jobs, jobSpecs, jobArtifacts, jobCounts, farmSecrets,
		globalKeys, uniqueKeys,
	}
}

// Followed returns the views that a [fold.Follower] keeps.
func Followed() []fold.View { return fold.ThoseKept(All(), fold.Followed) }

// Inline returns the views that a store keeps while it appends.
func Inline() []store.View { return fold.InlineOf(All()) }
