package projections

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
)

// The views. Those that a decision about rights or uniqueness reads are inline;
// the others are followed.
var (
	inlineViews   = []View{users, accounts, workspaces, members, memberCounts, memberWords, invitations, serviceAccounts, serviceTokens}
	followedViews = []View{runs, runCounts, decisions, outcomes, audit}
	keyViews      = []View{globalKeys, uniqueKeys} // which the append keeps
)

// nouns begin the kinds of the events that each view takes in, or are such kinds; but
// the audit log's takes in all. The others it passes by without decoding them: most
// of a long log is runs, and most views are not about those.
var nouns = map[string][]string{
	"users":            {"user"},
	"accounts":         {"user"},
	"workspaces":       {"workspace"},
	"members":          {"member"},
	"member_counts":    {"member"},
	"member_words":     {"member"},
	"invitations":      {"invitation"},
	"service_accounts": {"service_account"},
	"service_tokens":   {"service_account"},
	"runs":             {"run", "decision"},
	"run_counts":       {"run"},
	"decisions":        {"decision"},
	"outcomes":         {"run", "decision"},
	"global_keys":      {"user", "workspace", "invitation"},
	"unique_keys":      {"service_account", "run.queued", "run.merged", "run.rejected", "run.failed", "run.cancelled"},
}

// takes reports whether a view takes in events of a kind, if it can read them.
func takes(v View, kind string) bool {
	noun, _, _ := strings.Cut(kind, ".")
	return slices.Contains(nouns[v.Name()], noun) || slices.Contains(nouns[v.Name()], kind)
}

// All returns every view, in the order in which they are rebuilt, and the tables of
// keys, which can be folded as well.
func All() []View { return slices.Concat(inlineViews, followedViews, keyViews) }

// followed reports whether a view is kept up by a [Follower].
func followed(v View) bool { return slices.Contains(followedViews, v) }

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
