package world

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/projections"
	"svc/projections/farmviews"
	"svc/projections/runviews"
)

// Views asks a database, but for the turns of jobs: these are those of [WithTurn], or else what turn returns.
func Views(db *pgxpool.Pool, turn func() int64) commands.Views {
	runs := runviews.Runs{DB: db}
	return commands.Views{
		Turn: func(events.ID, events.ID, events.JobSpec) func(context.Context) (string, int64, error) {
			return func(ctx context.Context) (string, int64, error) {
				if given, ok := ctx.Value(givenTurn{}).(givenTurn); ok {
					return "any", given.turn, given.err
				}
				return "any", turn(), nil
			}
		},
		KeyUse: farmviews.Jobs{DB: db}.KeyUse, LargestIssue: runs.LargestIssue, RunRepo: runs.Repo,
		Home: projections.Users{DB: db}.Home, StaleMemberships: projections.Members{DB: db}.WorkspacesWithOtherProfile,
	}
}

type givenTurn struct {
	turn int64
	err  error
}

// WithTurn returns a context in which jobs get a turn, or are refused with err if that is not nil.
func WithTurn(ctx context.Context, turn int64, err error) context.Context {
	return context.WithValue(ctx, givenTurn{}, givenTurn{turn, err})
}
