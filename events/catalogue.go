package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Audience is who may read an event while it happens. Each includes those
// after it.
type Audience int

// The audiences.
const (
	Nobody         Audience = iota // what a newer build knows and this one does not
	Administrators                 // Owners and Maintainers
	Members
	Everybody // tokens too
)

// A Noun is what events happen to: the first word of their kinds.
type Noun struct {
	Name        string
	Audience    Audience // of live updates: those who may read the same elsewhere
	State       bool     // what a workspace was like at a moment depends on its events
	Rights      bool     // what callers may do depends on its events
	NamesTarget bool     // its events say what they happened to; of others it is their stream
	of          string   // the noun that its events happened to, if that is another
	kinds       [][]decoder
}

// catalogue is every noun. A new one adds a line.
var catalogue = []Noun{
	users, workspaces, members, invitations, serviceAccounts,
	denials, audits, signingKeys,
	runs, decisions,
	authorities, enrollments, runners,
	jobs,
	farmSecrets,
}

var (
	nouns = byName(catalogue)
	kinds = index(catalogue)
)

// NounOf returns the noun of a kind. Of one that this build does not know it has
// the name alone.
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

// NounsThat returns the names of the nouns of which is is true, sorted.
func NounsThat(is func(Noun) bool) (names []string) {
	for name, n := range nouns {
		if is(n) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func byName(list []Noun) map[string]Noun {
	m := make(map[string]Noun, len(list))
	for _, n := range list {
		m[n.Name] = n
	}
	return m
}

// Kinds returns every kind there is, sorted.
func Kinds() []string {
	list := make([]string, 0, len(kinds))
	for k := range kinds {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// Schema returns the version of the stored form that new events of a kind get.
func Schema(kind string) int { return len(kinds[kind]) }

// Decode turns a stored form back into an event of the form that its kind has
// today. A kind or schema that this build does not know is an error: a newer
// build wrote it. A form that is not what it should be is [ErrDamaged].
func Decode(kind string, schema int, data []byte) (Event, error) {
	if err := Known(kind, schema); err != nil {
		return nil, err
	}
	e, err := kinds[kind][schema-1](data)
	if err != nil {
		return nil, damaged{fmt.Errorf("decode %s: %w", kind, err)}
	}
	return e, nil
}

// Known reports an error if this build does not know a kind or schema.
func Known(kind string, schema int) error {
	if schema < 1 || schema > Schema(kind) {
		return fmt.Errorf("decode event: unknown kind %q, schema %d", kind, schema)
	}
	return nil
}

// ErrDamaged says that the stored form of an event is not what its kind has.
var ErrDamaged = errors.New("damaged event")

type damaged struct{ error }

func (damaged) Is(target error) bool { return target == ErrDamaged }

// Encode returns the form of e that is stored.
func Encode(e Event) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	return data, nil
}

type decoder func(data []byte) (Event, error)

// A fact is an event of the catalogue.
type fact interface {
	Event
	// target says what the event happened to.
	target(r *Record) Target
	// changes lists what it changed there.
	changes(r *Record) []Change
}

// of makes the decoders of a kind: one for each form that it had before, the
// oldest first, and one for that of today. A form that was stored is never
// changed; a new one takes its place, and the old one becomes a type with a
// method Now, as runCommitsPushed1 is one.
func of[E fact](earlier ...decoder) []decoder {
	return append(earlier, func(data []byte) (Event, error) {
		var e E
		err := json.Unmarshal(data, &e)
		return e, err
	})
}

// was decodes an earlier form.
func was[E interface{ Now() Event }](data []byte) (Event, error) {
	var e E
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	return e.Now(), nil
}

func index(list []Noun) map[string][]decoder {
	m := map[string][]decoder{}
	for _, noun := range list {
		for _, forms := range noun.kinds {
			zero, err := forms[len(forms)-1]([]byte("{}"))
			if err != nil {
				panic(err)
			}
			m[zero.Kind()] = forms
		}
	}
	return m
}
