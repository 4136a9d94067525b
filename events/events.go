// Package events lists everything that can have happened, in the past tense.
//
// Events happen to nouns. A noun has a file: the types of its events, each with
// its kind, what it happened to and what it changed, and the noun itself, which
// lists them and says who may read them as they happen. The list of nouns is the catalogue.
//
// An event's kind and JSON form are stored for ever: testdata holds one stored
// form of each kind, and a test decodes it and encodes it again. A form may
// gain optional fields; anything else is a new schema version or a new kind.
package events

import (
	"encoding/json"
	"time"
)

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
	At        time.Time // UTC, microseconds; never earlier than the record before it
	Envelope
	Event Event
	Meta  []byte // the envelope as stored, byte for byte
	Data  []byte // the event as stored, byte for byte
}

// Decoded returns r with the envelope and the event, of that kind, that its Meta
// and Data hold. Of an envelope that cannot be decoded it keeps what can, of an
// event that cannot be an [Unread].
func (r Record) Decoded(kind string) Record {
	_ = json.Unmarshal(r.Meta, &r.Envelope)
	var err error
	if r.Event, err = Decode(kind, r.Schema, r.Data); err != nil {
		r.Event = Unread{Name: kind}
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
	TokenTail string `json:"tokenTail,omitempty"` // of the service token that was used
	Causation ID     `json:"causation,omitzero"`  // the event this one follows from
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

// An Origin is the door through which a command came in.
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
