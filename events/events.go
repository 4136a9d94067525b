// Package events defines every event that can be in a log, named in the past tense.
//
// Events happen to nouns. Each noun has a file with the types of its events and the noun
// itself. An event has a kind, a target (what it happened to) and changes; the noun lists
// its events and says who may read them live. The list of nouns is the catalogue.
//
// An event's kind and JSON form are stored for ever: testdata holds one stored form of each
// kind, which a test decodes and encodes again. A form may gain optional fields; anything
// else is a new schema version or a new kind.
package events

import "time"

// An Event is a fact. Kind is dotted lower case, noun first: "member.role_changed".
type Event interface{ Kind() string }

// A Record is an event as it was stored.
type Record struct {
	Workspace ID    // whose log it is in
	Seq       int64 // its number in that log: 1, 2, 3 … without a gap, in commit order
	ID        ID
	Stream    ID // the aggregate it happened to
	Version   int
	Schema    int       // the version of the stored form, 1 for the first
	At        time.Time // UTC, in microseconds; never earlier than that of the record before
	Envelope
	Event Event
	Meta  []byte // the envelope as stored, byte for byte
	Data  []byte // the event as stored, byte for byte
}

// Decoded returns r with its envelope and event decoded from Meta and Data; kind is the
// event's kind. It never fails: it keeps what can be decoded of the envelope, and an event
// that cannot be decoded becomes an [Undecoded].
func (r Record) Decoded(kind string) Record {
	var err error
	r.Envelope, _ = DecodeEnvelope(r.Meta)
	if r.Event, err = Decode(kind, r.Schema, r.Data); err != nil {
		r.Event = Undecoded{Name: kind}
	}
	return r
}

// An Envelope says who caused an event, and through which request.
type Envelope struct {
	Actor     Actor  `json:"actor"`
	Origin    Origin `json:"origin"`
	IP        string `json:"ip,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	TokenTail string `json:"tokenTail,omitempty"` // the last characters of the service token that was used
}

// An Actor is who did it. Name is what people read: an e-mail address, or "service:ci-bot".
type Actor struct {
	Type ActorType `json:"type"`
	ID   ID        `json:"id,omitzero"`
	Name string    `json:"name"`
}

// An ActorType says what kind of thing acted.
type ActorType string

// The types of actors.
const (
	ByUser    ActorType = "user"
	ByService ActorType = "service"
	ByRunner  ActorType = "runner"
	BySystem  ActorType = "system"
)

// An Origin is the interface through which a command came in.
type Origin string

// The origins.
const (
	FromUI     Origin = "ui"
	FromAPI    Origin = "api"
	FromAuth   Origin = "auth"
	FromFarm   Origin = "farm"
	FromCLI    Origin = "cli"
	FromSystem Origin = "system"
)
