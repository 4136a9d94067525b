package runs

import (
	"context"
	"math"
	"strconv"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/http/rest/door"
	"svc/http/rest/schema"
)

func (s *Server) runEventRoutes() door.Section {
	return door.Section{Tag: "Runs", Routes: []door.Route{
		door.Query(s.listRunEvents, door.Route{
			Method: "GET", Path: "/runs/{id}/events", Guard: door.AnyMemberOrReadToken, Views: []string{"runs"},
			ID: "listRunEvents", Summary: "List the events of a run",
			Text: "Lists the stored events of a run, oldest first: who queued it, the results of the analysis (`run.facts_recorded`), the plan " +
				"(`run.plan_recorded`), pushes, and decisions with their answers. `nextCursor` is always present; use it to get later events, " +
				"including those that have not happened yet. With `order=desc`, the newest events come first, and `nextCursor` leads to older " +
				"ones and is absent on the last page. A cursor is valid only for the order in which it was returned.",
			Refuses:       []*fault.Fault{aggregates.ErrNoRun},
			AnswerExample: exampleRunEvents(),
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
	return schema.ParseVersion(q.Cursor, sign, least, "must be the nextCursor of an answer of this order")
}

type runEventsBody struct {
	Items      []schema.EventRecord `json:"items" nullable:"false"`
	NextCursor string               `json:"nextCursor,omitempty" doc:"Cursor of later events, including those that have not happened yet. With order=desc, cursor of older events, absent if there are none." example:"7"`
}

type runEventsAnswer struct{ Body runEventsBody }

func (s *Server) listRunEvents(ctx context.Context, in *runEventsQuery) (*runEventsAnswer, error) {
	id, err := door.ParseID(in.ID, aggregates.ErrNoRun)
	if err != nil {
		return nil, err
	}
	from, err := in.version()
	if err != nil {
		return nil, err
	}
	c := door.CallerOf(ctx)
	workspace := c.Workspace
	read, body := s.Listed.Runs.Events, newRunEvents
	if in.Order == "desc" {
		read, body = s.Listed.Runs.EventsBefore, newRunEventsBefore
	}
	_, ok, err := s.Listed.Runs.Get(ctx, workspace, id)
	if err := door.CheckFound(ok, err, aggregates.ErrNoRun); err != nil {
		return nil, err
	}
	list, err := read(ctx, workspace, id, from, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &runEventsAnswer{body(list, from)}
	profiles, err := s.ActorProfiles(ctx, list)
	if err != nil {
		return nil, err
	}
	for i, r := range list {
		p := profiles[r.Actor.ID]
		out.Body.Items[i].Actor.DisplayName, out.Body.Items[i].Actor.AvatarURL = p.Name, p.AvatarURL
		out.Body.Items[i].Actor = c.RedactActor(out.Body.Items[i].Actor)
	}
	return out, nil
}

// newRunEvents returns the page of events after a version, oldest first.
func newRunEvents(list []events.Record, after int) runEventsBody {
	if len(list) > 0 {
		after = list[len(list)-1].Version
	}
	return runEventsBody{schema.NewEventRecords(list), strconv.Itoa(after)}
}

// newRunEventsBefore returns a page of events in descending order. A run's first event has version 1.
func newRunEventsBefore(list []events.Record, _ int) runEventsBody {
	out := runEventsBody{Items: schema.NewEventRecords(list)}
	if len(list) > 0 && list[len(list)-1].Version > 1 {
		out.NextCursor = strconv.Itoa(-list[len(list)-1].Version)
	}
	return out
}

func exampleRunEvents() runEventsBody {
	record := func(version int, by events.Actor, e events.Event, data string) events.Record {
		return events.Record{
			ID: schema.ExampleNo(byte(40 + version)), Seq: int64(3 + version), Version: version, At: schema.ExampleAt(61 - version), Schema: 1,
			Envelope: events.Envelope{Actor: by, Origin: events.FromAPI}, Event: e, Data: []byte(data),
		}
	}
	return newRunEvents([]events.Record{
		record(1, schema.ExampleAda, events.RunQueued{},
			`{"repo":{"id":"`+schema.ExampleRepo.ID.String()+`","name":"acme/web"},"issueNumber":7,"issueTitle":"Fix date parsing"}`),
		record(2, events.Actor{Type: events.BySystem, Name: "loop"}, events.RunStageEntered{}, `{"stage":"analyze","attempt":1}`),
	}, 0)
}
