package rest

import (
	"context"
	"encoding/json"
	"strconv"

	"svc/events"
)

type jobEventsQuery struct {
	ID     string `path:"id" maxLength:"64" doc:"The job's id."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"25"`
	Cursor string `query:"cursor" maxLength:"20" doc:"nextCursor of the page before."`
}

// A jobEvent is something that happened to a job, as it is stored.
type jobEvent struct {
	ID    string          `json:"id" format:"uuid" doc:"That of the record in the audit log."`
	Seq   int64           `json:"seq" doc:"The number of the event in the workspace's log."`
	At    timestamp       `json:"at"`
	Kind  string          `json:"kind" example:"job.leased"`
	Actor auditActor      `json:"actor"`
	Data  json.RawMessage `json:"data" doc:"What is stored, as it is stored." example:"{\"epoch\": 1, \"attempt\": 1, \"runnerId\": \"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9\", \"runnerName\": \"builder-1\"}"`
}

type jobEventsBody struct {
	Items      []jobEvent `json:"items" nullable:"false"`
	NextCursor string     `json:"nextCursor" doc:"Leads to later events, also to those that have not happened yet." example:"7"`
}

type jobEventsAnswer struct{ Body jobEventsBody }

func (s *Server) listJobEvents(ctx context.Context, in *jobEventsQuery) (*jobEventsAnswer, error) {
	after := 0
	if in.Cursor != "" {
		var err error
		if after, err = strconv.Atoi(in.Cursor); err != nil || after < 0 || after > 1<<30 {
			return nil, invalid("cursor", "must be the nextCursor of an answer")
		}
	}
	job, err := s.findJob(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list, err := s.views.Jobs.Events(ctx, job.Workspace, job.ID, after, in.Limit)
	if err != nil {
		return nil, err
	}
	return &jobEventsAnswer{newJobEvents(list, after)}, nil
}

func newJobEvents(list []events.Record, after int) jobEventsBody {
	out := jobEventsBody{Items: []jobEvent{}}
	for _, r := range list {
		out.Items = append(out.Items, jobEvent{
			ID: r.ID.String(), Seq: r.Seq, At: at(r.At), Kind: r.Event.Kind(),
			Actor: auditActor{Type: r.Actor.Type, ID: shown(r.Actor.ID), Name: r.Actor.Name}, Data: json.RawMessage(r.Data),
		})
		after = r.Version
	}
	out.NextCursor = strconv.Itoa(after)
	return out
}
