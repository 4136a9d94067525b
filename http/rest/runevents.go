package rest

import (
	"context"
	"encoding/json"
	"math"
	"strconv"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/http/openapi"
)

func (s *Server) runEventRoutes() section {
	return section{tag: "Runs", routes: []route{
		query(s.listRunEvents, route{
			method: "GET", path: "/runs/{id}/events", guard: anyMemberOrReadToken, views: []string{"runs"},
			id: "listRunEvents", summary: "List the events of a run",
			text: "Lists the stored events of a run, oldest first: who queued it, the results of the analysis (`run.facts_recorded`), the plan " +
				"(`run.plan_recorded`), pushes, and decisions with their answers. `nextCursor` is always present; use it to get later events, " +
				"including those that have not happened yet. With `order=desc`, the newest events come first, and `nextCursor` leads to older " +
				"ones and is absent on the last page. A cursor is valid only for the order in which it was returned.",
			refuses:       []*fault.Fault{aggregates.ErrNoRun},
			answerExample: exampleRunEvents(),
		}),
	}}
}

type runEventsQuery struct {
	ID     string `path:"id" maxLength:"64" doc:"The run's id."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"25"`
	Cursor string `query:"cursor" maxLength:"20" doc:"The nextCursor of the previous page in the same order."`
	Order  string `query:"order" enum:"asc,desc" default:"asc" doc:"asc: oldest first. desc: newest first."`
}

// version returns the version after or, in descending order, before which the page begins. Cursors of
// descending pages are negative, so that they are invalid in ascending order and the other way round.
func (q *runEventsQuery) version() (version int, err error) {
	descending := q.Order == "desc"
	if q.Cursor == "" {
		if descending {
			version = math.MaxInt32
		}
		return version, nil
	}
	sign, least := 1, 0
	if descending {
		sign, least = -1, 2
	}
	return parseVersion(q.Cursor, sign, least, "must be the nextCursor of an answer of this order")
}

const maxVersion = 1 << 30 // of a cursor

// parseVersion parses a cursor that is sign times a version of at least least. Other text is invalid by
// rule.
func parseVersion(cursor string, sign, least int, rule string) (int, error) {
	n, err := strconv.Atoi(cursor)
	if version := sign * n; err == nil && version >= least && version <= maxVersion {
		return version, nil
	}
	return 0, invalid("cursor", rule)
}

type runEventsBody struct {
	Items      []EventRecord `json:"items" nullable:"false"`
	NextCursor string        `json:"nextCursor,omitempty" doc:"Cursor of later events, including those that have not happened yet. With order=desc, cursor of older events, absent if there are none." example:"7"`
}

type runEventsAnswer struct{ Body runEventsBody }

func (s *Server) listRunEvents(ctx context.Context, in *runEventsQuery) (*runEventsAnswer, error) {
	id, err := parseID(in.ID, aggregates.ErrNoRun)
	if err != nil {
		return nil, err
	}
	from, err := in.version()
	if err != nil {
		return nil, err
	}
	c := callerOf(ctx)
	workspace := c.workspace
	read, body := s.Lists.Runs.Events, newRunEvents
	if in.Order == "desc" {
		read, body = s.Lists.Runs.EventsBefore, newRunEventsBefore
	}
	_, ok, err := s.Lists.Runs.Get(ctx, workspace, id)
	if err := checkFound(ok, err, aggregates.ErrNoRun); err != nil {
		return nil, err
	}
	list, err := read(ctx, workspace, id, from, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &runEventsAnswer{body(list, from)}
	profiles, err := s.actorProfiles(ctx, list)
	if err != nil {
		return nil, err
	}
	for i, r := range list {
		p := profiles[r.Actor.ID]
		out.Body.Items[i].Actor.DisplayName, out.Body.Items[i].Actor.AvatarURL = p.Name, p.AvatarURL
		out.Body.Items[i].Actor = c.redactActor(out.Body.Items[i].Actor)
	}
	return out, nil
}

// newRunEvents returns the page of events after a version, oldest first.
func newRunEvents(list []events.Record, after int) runEventsBody {
	if len(list) > 0 {
		after = list[len(list)-1].Version
	}
	return runEventsBody{newEventRecords(list), strconv.Itoa(after)}
}

// newRunEventsBefore returns a page of events in descending order. A run's first event has version 1.
func newRunEventsBefore(list []events.Record, _ int) runEventsBody {
	out := runEventsBody{Items: newEventRecords(list)}
	if len(list) > 0 && list[len(list)-1].Version > 1 {
		out.NextCursor = strconv.Itoa(-list[len(list)-1].Version)
	}
	return out
}

func exampleRunEvents() runEventsBody {
	record := func(version int, by events.Actor, e events.Event, data string) events.Record {
		return events.Record{
			ID: exampleNo(byte(40 + version)), Seq: int64(3 + version), Version: version, At: exampleAt(61 - version), Schema: 1,
			Envelope: events.Envelope{Actor: by, Origin: events.FromAPI}, Event: e, Data: []byte(data),
		}
	}
	return newRunEvents([]events.Record{
		record(1, exampleAda, events.RunQueued{},
			`{"repo":{"id":"`+exampleRepo.ID.String()+`","name":"acme/web"},"issueNumber":7,"issueTitle":"Fix date parsing"}`),
		record(2, events.Actor{Type: events.BySystem, Name: "loop"}, events.RunStageEntered{}, `{"stage":"analyze","attempt":1}`),
	}, 0)
}

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
