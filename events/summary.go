package events

import (
	"slices"

	"github.com/tidwall/gjson"
)

// A summary stands for an event and has only what Target, Changes and Action of its record return.
type summary struct {
	kind, action, denied string
	targeted             Target
	changed              []Change
}

// Kind returns the kind of the event.
func (s summary) Kind() string             { return s.kind }
func (s summary) target(*Record) Target    { return s.targeted }
func (s summary) changes(*Record) []Change { return s.changed }

// Summary returns r without its stored data, and with an event that has only what Target, Changes and
// Action return. Events may be large, but what lists show of them is small.
func (r Record) Summary() Record {
	if _, undecoded := r.Event.(Undecoded); !undecoded {
		s := summary{kind: r.Event.Kind(), targeted: r.Target(), changed: r.Changes()}
		s.action, s.denied = r.Action()
		r.Event = s
	}
	r.Meta, r.Data = nil, nil
	return r
}

// DecodedSummary is Decoded followed by Summary. It does not decode the steps of a large job, which are
// most of its data and are not shown.
func (r Record) DecodedSummary(kind string) Record {
	if kind == (JobSubmitted{}).Kind() && len(r.Data) > largeJob {
		if steps := gjson.GetBytes(r.Data, "spec.steps"); steps.IsArray() && steps.Index > 0 {
			r.Data = slices.Concat(r.Data[:steps.Index], []byte("[]"), r.Data[steps.Index+len(steps.Raw):])
		}
	}
	return r.Decoded(kind).Summary()
}

// largeJob is the number of bytes above which DecodedSummary skips the steps of a job.
const largeJob = 16 << 10
