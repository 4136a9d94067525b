package events

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
)

// A Target is what an event happened to.
type Target struct {
	Type string // member, service_account, run …
	ID   ID
	Name string // at that time; empty if the event does not say
}

// A Change is one field that an event changed. From is nil if there was no value.
type Change struct {
	Field    string
	From, To any
}

// Target returns what the record's event happened to.
func (r *Record) Target() Target {
	if f, ok := r.Event.(catalogued); ok {
		return f.target(r)
	}
	noun := NounOf(r.Event.Kind())
	return Target{Type: cmp.Or(noun.streamNoun, noun.Name), ID: r.Stream}
}

// Changes returns what the record's event changed. It is never nil.
func (r *Record) Changes() []Change {
	if f, ok := r.Event.(catalogued); ok {
		return f.changes(r)
	}
	return []Change{}
}

// Action returns the kind of event that happened. For a denial, it returns the kind that
// did not happen and the refusal's code.
func (r *Record) Action() (action, denied string) {
	switch e := r.Event.(type) {
	case CommandDenied:
		return e.Action, e.Code
	case summary:
		return e.action, e.denied
	case CommandDenialsOmitted:
		return e.Kind(), "denials_omitted" // the denials had different codes
	}
	return r.Event.Kind(), ""
}

// allFields returns the fields of the event as changes without a previous value, in stored
// order.
func (r *Record) allFields() []Change {
	list := []Change{}
	gjson.ParseBytes(r.FormattedData()).ForEach(func(name, value gjson.Result) bool {
		list = append(list, Change{Field: name.String(), To: json.RawMessage(value.Raw)})
		return true
	})
	return list
}

// differing returns the changes whose values differ.
func differing(list ...Change) []Change {
	changed := []Change{}
	for _, c := range list {
		if c.From != c.To {
			changed = append(changed, c)
		}
	}
	return changed
}

// differingFields returns the fields of two structs whose stored forms differ, in stored order. A field that one of
// them leaves out is nil there.
func differingFields(from, to any) []Change {
	before, after := fieldsOf(from), fieldsOf(to)
	changed := []Change{}
	add := func(name, _ gjson.Result) bool {
		was, is := before.Get(name.String()), after.Get(name.String())
		known := slices.ContainsFunc(changed, func(c Change) bool { return c.Field == name.String() })
		if was.Raw != is.Raw && !known {
			changed = append(changed, Change{Field: name.String(), From: stored(was), To: stored(is)})
		}
		return true
	}
	before.ForEach(add)
	after.ForEach(add)
	return changed
}

// fieldsOf returns the stored form of a struct.
func fieldsOf(v any) gjson.Result {
	text, err := json.Marshal(v)
	if err != nil {
		return gjson.Result{} // its event could not have been stored
	}
	return gjson.ParseBytes(text)
}

func stored(field gjson.Result) any {
	if !field.Exists() {
		return nil
	}
	return json.RawMessage(field.Raw)
}
