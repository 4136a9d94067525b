package rest

import (
	"context"

	"svc/events"
)

type jobEventsQuery struct {
	ID     string `path:"id" maxLength:"64" doc:"The job's id."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"25"`
	Cursor string `query:"cursor" maxLength:"20" doc:"The nextCursor of the previous page."`
}

type jobEventsBody struct {
	Items      []EventRecord `json:"items" nullable:"false"`
	NextCursor string        `json:"nextCursor" doc:"Cursor of later events, including those that have not happened yet." example:"7"`
}

type jobEventsAnswer struct{ Body jobEventsBody }

func (s *Server) listJobEvents(ctx context.Context, in *jobEventsQuery) (*jobEventsAnswer, error) {
	after := 0
	if in.Cursor != "" {
		var err error
		if after, err = parseVersion(in.Cursor, 1, 0, "must be the nextCursor of an answer"); err != nil {
			return nil, err
		}
	}
	job, err := s.findJob(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	list, err := s.Views.Jobs.Events(ctx, job.Workspace, job.ID, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &jobEventsAnswer{newJobEvents(list, after)}
	for i := range out.Body.Items {
		out.Body.Items[i].Actor = callerOf(ctx).redactActor(out.Body.Items[i].Actor)
	}
	return out, nil
}

func newJobEvents(list []events.Record, after int) jobEventsBody {
	return jobEventsBody(newRunEvents(list, after)) // with other documentation
}
