package projections

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// The views. Those that a decision about rights or uniqueness reads are inline;
// the others are followed.
var (
	inlineViews   = []View{users, accounts, workspaces, members, invitations, serviceAccounts, serviceTokens}
	followedViews = []View{runs, runCounts, decisions, outcomes, audit}
)

// nouns begin the kinds of the events that each view takes in, but the audit
// log's, which takes in all. The others it passes by without decoding them: most
// of a long log is runs, and most views are not about those.
var nouns = map[string][]string{
	"users":            {"user"},
	"accounts":         {"user"},
	"workspaces":       {"workspace"},
	"members":          {"member"},
	"invitations":      {"invitation"},
	"service_accounts": {"service_account"},
	"service_tokens":   {"service_account"},
	"runs":             {"run", "decision"},
	"run_counts":       {"run"},
	"decisions":        {"decision"},
	"outcomes":         {"run", "decision"},
}

// All returns every view, in the order in which they are rebuilt.
func All() []View { return append(append([]View{}, inlineViews...), followedViews...) }

// Followed returns the views that a [Follower] keeps.
func Followed() []View { return slices.Clone(followedViews) }

// Inline returns the views that a store keeps while it appends.
func Inline() (list []store.View) {
	for _, v := range inlineViews {
		list = append(list, inline{v})
	}
	return list
}

type inline struct{ View }

func (v inline) Load(b *pgx.Batch, records []events.Record) func(*pgx.Batch) error {
	change := v.load(b, v.Name(), records)
	if change == nil {
		return nil
	}
	return func(b *pgx.Batch) error {
		next, err := change(b)
		if err == nil && next != nil {
			err = fmt.Errorf("inline view %s takes more than one step", v.Name())
		}
		return err
	}
}
