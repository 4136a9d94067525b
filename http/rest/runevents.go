package rest

import (
	"context"
	"encoding/json"
	"math"
	"strconv"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
)

func (s *Server) runEventRoutes() section {
	return section{tag: "Runs", routes: []route{
		query(s.listRunEvents, route{
			method: "GET", path: "/runs/{id}/events", guard: readers, views: []string{"runs"},
			id: "listRunEvents", summary: "List what happened to a run",
			text: "The events of a run, the oldest first, as they are stored: who queued it, what the analysis found (`run.facts_recorded`), " +
				"the plan (`run.plan_recorded`), pushes, decisions and who made them. `nextCursor` leads to later ones, also to those that " +
				"have not happened yet: it is always there. With `order=desc` the newest come first, `nextCursor` leads to older ones and is " +
				"absent on the last page. A cursor is good for the order of its answer alone.",
			refuses:  []*fault.Fault{aggregates.ErrNoRun},
			answered: exampleRunEvents(),
		}),
	}}
}

type runEventsQuery struct {
	ID     string `path:"id" maxLength:"64" doc:"The run's id."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"25"`
	Cursor string `query:"cursor" maxLength:"20" doc:"nextCursor of the page before, of the same order."`
	Order  string `query:"order" enum:"asc,desc" default:"asc" doc:"asc: the oldest first. desc: the newest first."`
}

// version returns the version from which a page goes on, itself not in it. Cursors to older
// events are negative, so that those of one order are none of the other.
func (q *runEventsQuery) version() (version int, err error) {
	descending := q.Order == "desc"
	if q.Cursor == "" {
		if descending {
			version = math.MaxInt32
		}
		return version, nil
	}
	version, err = strconv.Atoi(q.Cursor)
	if descending {
		version = -version
	}
	if err != nil || version < 0 || version > maxVersion || descending && version < 2 {
		return 0, invalid("cursor", "must be the nextCursor of an answer of this order")
	}
	return version, nil
}

const maxVersion = 1 << 30 // in a cursor

// A RunEvent is something that happened to a run, as it is stored.
type RunEvent struct {
	ID    string          `json:"id" format:"uuid" doc:"That of the record in the audit log."`
	Seq   int64           `json:"seq" doc:"The number of the event in the workspace's log."`
	At    timestamp       `json:"at"`
	Kind  string          `json:"kind" example:"run.stage_entered"`
	Actor auditActor      `json:"actor"`
	Data  json.RawMessage `json:"data" doc:"What is stored, as it is stored." example:"{\"stage\": \"build_farm\", \"attempt\": 2}"`
}

type runEventsBody struct {
	Items      []RunEvent `json:"items" nullable:"false"`
	NextCursor string     `json:"nextCursor,omitempty" doc:"Leads to later events, also to those that have not happened yet; with order=desc to older ones, and absent if there are none." example:"7"`
}

type runEventsAnswer struct{ Body runEventsBody }

func (s *Server) listRunEvents(ctx context.Context, in *runEventsQuery) (*runEventsAnswer, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, aggregates.ErrNoRun
	}
	from, err := in.version()
	if err != nil {
		return nil, err
	}
	workspace := callerOf(ctx).workspace
	read, body := s.lists.Runs.Events, newRunEvents
	if in.Order == "desc" {
		read, body = s.lists.Runs.EventsBefore, newRunEventsBefore
	}
	_, ok, err := s.lists.Runs.Get(ctx, workspace, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, aggregates.ErrNoRun
	}
	list, err := read(ctx, workspace, id, from, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &runEventsAnswer{body(list, from)}
	people, err := s.people(ctx, list)
	if err != nil {
		return nil, err
	}
	for i, r := range list {
		face := people[r.Actor.ID]
		out.Body.Items[i].Actor.DisplayName, out.Body.Items[i].Actor.AvatarURL = face.Name, face.AvatarURL
	}
	return out, nil
}

// newRunEvents shows events that follow a version, the oldest first.
func newRunEvents(list []events.Record, after int) runEventsBody {
	if len(list) > 0 {
		after = list[len(list)-1].Version
	}
	return runEventsBody{shownRunEvents(list), strconv.Itoa(after)}
}

// newRunEventsBefore shows events that precede a version, the newest first. The first of a
// run is of version 1.
func newRunEventsBefore(list []events.Record, _ int) runEventsBody {
	out := runEventsBody{Items: shownRunEvents(list)}
	if len(list) > 0 && list[len(list)-1].Version > 1 {
		out.NextCursor = strconv.Itoa(-list[len(list)-1].Version)
	}
	return out
}

func shownRunEvents(list []events.Record) []RunEvent {
	out := make([]RunEvent, len(list))
	for i, r := range list {
		out[i] = RunEvent{
			ID: r.ID.String(), Seq: r.Seq, At: at(r.At), Kind: r.Event.Kind(),
			Actor: auditActor{Type: r.Actor.Type, ID: shown(r.Actor.ID), Name: r.Actor.Name}, Data: json.RawMessage(r.Data),
		}
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
		record(1, exampleAda, events.RunQueued{}, `{"repo":{"id":"`+exampleRepo.ID.String()+`","name":"acme/web"},"issueNumber":7,"issueTitle":"Fix date parsing"}`),
		record(2, events.Actor{Type: events.BySystem, Name: "loop"}, events.RunStageEntered{}, `{"stage":"analyze","attempt":1}`),
	}, 0)
}
