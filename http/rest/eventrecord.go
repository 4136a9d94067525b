package rest

import (
	"encoding/json"

	"svc/events"
	"svc/http/openapi"
)

// An EventRecord is a stored event of a run or a job.
type EventRecord struct {
	ID    string            `json:"id" format:"uuid" doc:"The id of the record in the audit log."`
	Seq   int64             `json:"seq" doc:"The event's sequence number in the workspace's log."`
	At    openapi.Timestamp `json:"at"`
	Kind  string            `json:"kind" example:"run.stage_entered"`
	Actor auditActor        `json:"actor"`
	Data  json.RawMessage   `json:"data" doc:"The event's data as stored, except that times have three digits of a second." example:"{\"stage\": \"build_farm\", \"attempt\": 2}"`
}

func newEventRecords(list []events.Record) []EventRecord {
	out := make([]EventRecord, len(list))
	for i, r := range list {
		out[i] = EventRecord{
			ID: r.ID.String(), Seq: r.Seq, At: openapi.FormatTime(r.At), Kind: r.Event.Kind(),
			Actor: auditActor{Type: r.Actor.Type, ID: idOrEmpty(r.Actor.ID), Name: r.Actor.Name}, Data: r.FormattedData(),
		}
	}
	return out
}
