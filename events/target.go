package events

import (
	"cmp"
	"encoding/json"

	"github.com/tidwall/gjson"
)

// A Target is what an event happened to.
type Target struct {
	Type string // member, service_account, run …
	ID   ID
	Name string // as it was then; empty where the event does not say
}

// A Change is one field that an event changed. From is nil for what is new.
type Change struct {
	Field    string
	From, To any
}

// Target returns what the event of r happened to.
func (r *Record) Target() Target {
	if f, ok := r.Event.(fact); ok {
		return f.target(r)
	}
	noun := NounOf(r.Event.Kind())
	return Target{Type: cmp.Or(noun.of, noun.Name), ID: r.Stream}
}

// Changes returns what the event of r changed. It is not nil.
func (r *Record) Changes() []Change {
	if f, ok := r.Event.(fact); ok {
		return f.changes(r)
	}
	return []Change{}
}

// Action returns what happened or, of a denial, what did not and the code of the
// refusal.
func (r *Record) Action() (action, denied string) {
	switch e := r.Event.(type) {
	case CommandDenied:
		return e.Action, e.Code
	case CommandDenialsOmitted:
		return e.Kind(), "denials_omitted" // each had a code of its own
	}
	return r.Event.Kind(), ""
}

// stated lists the fields of an event that only says how things are now, in
// the order in which they are stored.
func (r *Record) stated() []Change {
	list := []Change{}
	gjson.ParseBytes(r.Data).ForEach(func(name, value gjson.Result) bool {
		list = append(list, Change{Field: name.String(), To: json.RawMessage(value.Raw)})
		return true
	})
	return list
}

// differing leaves of changes those that change something.
func differing(list ...Change) []Change {
	changed := []Change{}
	for _, c := range list {
		if c.From != c.To {
			changed = append(changed, c)
		}
	}
	return changed
}
