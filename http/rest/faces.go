package rest

import (
	"context"
	"slices"

	"svc/events"
	"svc/projections"
)

// withFaces shows records, and what the people among their actors look like today.
func (s *Server) withFaces(ctx context.Context, records []projections.AuditRecord) ([]AuditRecord, error) {
	list, told := make([]AuditRecord, len(records)), make([]events.Record, len(records))
	for i, r := range records {
		list[i], told[i] = newAuditRecord(r), r.Record
	}
	people, err := s.people(ctx, told)
	if err != nil {
		return nil, err
	}
	for i, r := range records {
		face := people[r.Actor.ID]
		list[i].Actor.DisplayName, list[i].Actor.AvatarURL = face.Name, face.AvatarURL
	}
	return list, nil
}

// people returns what the people among the actors of records look like.
func (s *Server) people(ctx context.Context, records []events.Record) (map[events.ID]projections.Profile, error) {
	var ids []events.ID
	for _, r := range records {
		if r.Actor.Type == events.ByUser && !slices.Contains(ids, r.Actor.ID) {
			ids = append(ids, r.Actor.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return s.views.Users.Profiles(ctx, ids)
}
