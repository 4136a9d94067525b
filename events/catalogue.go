package events

import (
	"encoding/json"
	"errors"
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
	kinds       [][]decoder
}

// catalogue lists every noun.
var catalogue = []Noun{
	users, workspaces, members, invitations, serviceAccounts,
	denials, audits, signingKeys,
	runs, decisions,
	authorities, enrollments, runners,
	jobs,
	farmSecrets,
}

var (
	nouns = nounsByName(catalogue)
	kinds = decodersByKind(catalogue)
)

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

// Decode decodes a stored event into the current form of its kind. It reports an error if
// this build does not know the kind or schema, because a newer build wrote the event, and
// [ErrDamaged] if data does not have the form of the kind.
func Decode(kind string, schema int, data []byte) (Event, error) {
	if err := CheckKnown(kind, schema); err != nil {
		return nil, err
	}
	e, err := kinds[kind][schema-1](data)
	if err != nil {
		return nil, damaged{fmt.Errorf("decode %s: %w", kind, err)}
	}
	return e, nil
}

// CheckKnown reports an error if this build does not know a kind or schema.
func CheckKnown(kind string, schema int) error {
	if schema < 1 || schema > Schema(kind) {
		return fmt.Errorf("decode event: unknown kind %q, schema %d", kind, schema)
	}
	return nil
}

// ErrDamaged means that a stored event does not have the form of its kind.
var ErrDamaged = errors.New("damaged event")

type damaged struct{ error }

func (damaged) Is(target error) bool { return target == ErrDamaged }

// Encode returns the stored form of e.
func Encode(e Event) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	return data, nil
}

type decoder func(data []byte) (Event, error)

// A catalogued is an event of the catalogue. It may use all of its record but for the event.
type catalogued interface {
	Event
	// target returns what the event happened to.
	target(r *Record) Target
	// changes returns the fields that the event changed.
	changes(r *Record) []Change
}

// decodersOf returns the decoders of a kind: one for each earlier form, oldest first, and one for
// the current form. A stored form never changes. A new form takes its place, and the old
// one becomes a type with a method Now; runCommitsPushed1 is an example.
func decodersOf[E catalogued](earlier ...decoder) []decoder {
	return append(earlier, func(data []byte) (Event, error) {
		var e E
		err := json.Unmarshal(data, &e)
		return e, err
	})
}

// earlierForm decodes an earlier form and converts it to the current one.
func earlierForm[E interface{ Now() Event }](data []byte) (Event, error) {
	var e E
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	return e.Now(), nil
}

func decodersByKind(list []Noun) map[string][]decoder {
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
