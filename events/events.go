// Package events lists everything that can have happened, in the past tense.
//
// An event's kind and JSON form are stored for ever: testdata holds one stored
// form of each kind, and a test decodes it and encodes it again. A form may
// gain optional fields; anything else is a new schema version or a new kind.
package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// kinds is the catalogue. A new event type adds one line.
var kinds = index(
	of[UserRegistered](),
	of[UserAccountLinked](),
	of[UserEmailsVerified](),
	of[UserSignedIn](),
	of[UserSignedOut](),

	of[WorkspaceCreated](),
	of[WorkspaceRenamed](),

	of[MemberJoined](),
	of[MemberRoleChanged](),
	of[MemberApproveLoopsSet](),
	of[MemberProfileChanged](),
	of[MemberLeft](),
	of[MemberRemoved](),

	of[InvitationSent](),
	of[InvitationResent](),
	of[InvitationRevoked](),
	of[InvitationAccepted](),
	of[InvitationRejected](),

	of[ServiceAccountCreated](),
	of[ServiceAccountRotated](),
	of[ServiceAccountRevoked](),
	of[ServiceAccountStaleTokenUsed](),

	of[CommandDenied](),
	of[CommandDenialsOmitted](),
	of[AuditExported](),
	of[SigningKeyReplaced](),

	of[RunQueued](),
	of[RunStageEntered](),
	of[RunStageSucceeded](),
	of[RunStageFailed](),
	of[RunFactsRecorded](),
	of[RunPlanRecorded](),
	of[RunBranchCreated](),
	of[RunCommitsPushed](was[runCommitsPushed1]),
	of[RunGuardrailsChecked](),
	of[RunJobRequested](),
	of[RunJobSettled](),
	of[RunReviewed](),
	of[RunPullRequestOpened](),
	of[DecisionRaised](),
	of[DecisionAnswered](),
	of[DecisionVoided](),
	of[RunHumanIntervened](),
	of[RunCostRecorded](),
	of[RunMergeApproved](),
	of[RunMergeApprovalVoided](),
	of[RunMergeAttempted](),
	of[RunMerged](),
	of[RunRejected](),
	of[RunFailed](),
	of[RunCancelled](),
)

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

// of makes the decoders of a kind: one for each form that it had before, the
// oldest first, and one for that of today. A form that was stored is never
// changed; a new one takes its place, and the old one becomes a type with a
// method Now, as runCommitsPushed1 is one.
func of[E Event](earlier ...decoder) []decoder {
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

func index(list ...[]decoder) map[string][]decoder {
	m := make(map[string][]decoder, len(list))
	for _, forms := range list {
		zero, err := forms[len(forms)-1]([]byte("{}"))
		if err != nil {
			panic(err)
		}
		m[zero.Kind()] = forms
	}
	return m
}
