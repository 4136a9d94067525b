package events

import (
	"slices"

	"github.com/tidwall/gjson"
)

// A summary is an event of which only that is kept which its record's Target, Changes and Action return.
type summary struct {
	kind, action, denied string
	targeted             Target
	changed              []Change
}

// Kind returns the kind of the event.
func (s summary) Kind() string             { return s.kind }
func (s summary) target(*Record) Target    { return s.targeted }
func (s summary) changes(*Record) []Change { return s.changed }

// Summary returns r without its stored bytes, and without what is in its event but in none of Target,
// Changes and Action. An event may be large, but what is shown of it in lists is small.
func (r Record) Summary() Record {
	if _, undecoded := r.Event.(Undecoded); !undecoded {
		s := summary{kind: r.Event.Kind(), targeted: r.Target(), changed: r.Changes()}
		s.action, s.denied = r.Action()
		r.Event = s
	}
	r.Meta, r.Data = nil, nil
	return r
}

// DecodedSummary is Decoded followed by Summary. Of a large job it does not decode the steps, which take most
// of its bytes and are not shown.
func (r Record) DecodedSummary(kind string) Record {
	if kind == (JobSubmitted{}).Kind() && len(r.Data) > largeJob {
		if steps := gjson.GetBytes(r.Data, "spec.steps"); steps.IsArray() && steps.Index > 0 {
			r.Data = slices.Concat(r.Data[:steps.Index], []byte("[]"), r.Data[steps.Index+len(steps.Raw):])
		}
	}
	return r.Decoded(kind).Summary()
}

const largeJob = 16 << 10 // bytes
