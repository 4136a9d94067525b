package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// An Audience says who may read an event live. Each audience includes those after it.
type Audience int

// The audiences.
const (
	Nobody         Audience = iota // for kinds that this build does not know
	Administrators                 // Owners and Maintainers
	Members
	Everybody // service tokens too
)

// A Noun is what events happen to: the first word of their kinds.
type Noun struct {
	Name        string
	Audience    Audience // of live updates: those who may read the same data elsewhere
	State       bool     // its events are part of the state that a past workspace is rebuilt from
	Rights      bool     // its events change what callers may do
	NamesTarget bool     // its events say what they happened to; for other nouns it is the stream
	streamNoun  string   // the noun of the stream that its events are in, if it is another one

	people, work [][]decoder // its kinds, by category
}

// A Category says what a kind of event is about. The audit log shows people first.
type Category string

// The categories.
const (
	People Category = "people" // who is in the workspace and may do what, and what people decided or stopped
	Work   Category = "work"   // how runs, jobs and machines get on
)

// Categories are all categories.
var Categories = []Category{People, Work}

// kindsOf returns the decoders of the noun's kinds in a category.
func (n Noun) kindsOf(c Category) [][]decoder {
	if c == People {
		return n.people
	}
	return n.work
}

// catalogue lists every noun.
var catalogue = []Noun{
	users, workspaces, members, invitations, serviceAccounts,
	denials, audits, signingKeys,
	runs, decisions, repos, issues,
	authorities, enrollments, runners,
	jobs,
	farmSecrets,
}

var (
	nouns      = nounsByName(catalogue)
	kinds      = decodersByKind(catalogue)
	categories = actionsByCategory(catalogue)
)

// Actions returns the kinds of a category: "run.cancelled", or "member.*" for all kinds of a noun.
func (c Category) Actions() []string { return categories[c] }

// NounOf returns the noun of a kind. For an unknown kind it has nothing but a name.
func NounOf(kind string) Noun {
	name := nounOf(kind)
	if n, ok := nouns[name]; ok {
		return n
	}
	return Noun{Name: name}
}

func nounOf(kind string) string {
	name, _, _ := strings.Cut(kind, ".")
	return name
}

// NounsWhere returns the names of the nouns for which is returns true, sorted.
func NounsWhere(is func(Noun) bool) (names []string) {
	for name, n := range nouns {
		if is(n) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func nounsByName(list []Noun) map[string]Noun {
	m := make(map[string]Noun, len(list))
	for _, n := range list {
		m[n.Name] = n
	}
	return m
}

func actionsByCategory(list []Noun) map[Category][]string {
	m := map[Category][]string{}
	for _, n := range list {
		for _, c := range Categories {
			if len(n.kindsOf(c)) == len(n.people)+len(n.work) {
				m[c] = append(m[c], n.Name+".*")
				continue
			}
			for _, forms := range n.kindsOf(c) {
				m[c] = append(m[c], kindOf(forms))
			}
		}
	}
	return m
}

// Kinds returns all kinds, sorted.
func Kinds() []string {
	list := make([]string, 0, len(kinds))
	for k := range kinds {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// Schema returns the schema version that new events of a kind are stored with, 0 for an
// unknown kind.
func Schema(kind string) int { return len(kinds[kind]) }

// Encode returns the stored form of e.
func Encode(e Event) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	return data, nil
}

// A catalogued is an event of the catalogue. It may use all of its record but for the event.
type catalogued interface {
	Event
	// target returns what the event happened to.
	target(r *Record) Target
	// changes returns the fields that the event changed.
	changes(r *Record) []Change
}
