// Package schema has the forms of requests and answers that routes of several wings share, and the values of
// the description's examples.
package schema

import (
	"encoding/json"
	"strconv"

	"svc/events"
	"svc/fault"
	"svc/http/openapi"
)

// An AuditActor is who did something, as the audit log says.
type AuditActor struct {
	Type events.ActorType `json:"type" enum:"user,service,runner,system"`
	ID   string           `json:"id" example:"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"`
	Name string           `json:"name" doc:"Name of the actor; empty for a service account if the actor is a person." example:"service:ci-bot"`

	DisplayName string `json:"displayName,omitempty" doc:"A person's current name. Absent for other actors and in exports." example:"Zoë Brandt"`
	AvatarURL   string `json:"avatarUrl,omitempty" doc:"A person's picture. Absent if there is none, and in exports." example:"https://avatars.example.com/u/583231"`
}

// IDOrEmpty returns an id as text, "" for the zero id.
func IDOrEmpty(id events.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

const maxVersion = 1 << 30 // of a cursor

// ParseVersion parses a cursor that is sign times a version of at least least. Other text is invalid by
// rule.
func ParseVersion(cursor string, sign, least int, rule string) (int, error) {
	n, err := strconv.Atoi(cursor)
	if version := sign * n; err == nil && version >= least && version <= maxVersion {
		return version, nil
	}
	return 0, fault.Field("cursor", "%s", rule)
}

// An EventRecord is a stored event of a run or a job.
type EventRecord struct {
	ID    string            `json:"id" format:"uuid" doc:"The id of the record in the audit log."`
	Seq   int64             `json:"seq" doc:"The event's sequence number in the workspace's log."`
	At    openapi.Timestamp `json:"at"`
	Kind  string            `json:"kind" example:"run.stage_entered"`
	Actor AuditActor        `json:"actor"`
	Data  json.RawMessage   `json:"data" doc:"The event's data as stored, except that times have three digits of a second." example:"{\"stage\": \"build_farm\", \"attempt\": 2}"`
}

// NewEventRecords returns the answers' form of records.
func NewEventRecords(list []events.Record) []EventRecord {
	out := make([]EventRecord, len(list))
	for i, r := range list {
		out[i] = EventRecord{
			ID: r.ID.String(), Seq: r.Seq, At: openapi.FormatTime(r.At), Kind: r.Event.Kind(),
			Actor: AuditActor{Type: r.Actor.Type, ID: IDOrEmpty(r.Actor.ID), Name: r.Actor.Name}, Data: r.FormattedData(),
		}
	}
	return out
}
