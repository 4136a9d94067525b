package rest

import (
	"context"
	"slices"

	"svc/events"
	"svc/projections"
)

// withDisplayNames returns the answers' form of records, with the current names and pictures of actors
// that are people.
func (s *Server) withDisplayNames(ctx context.Context, records []projections.AuditRecord) ([]AuditRecord, error) {
	list, stored := make([]AuditRecord, len(records)), make([]events.Record, len(records))
	for i, r := range records {
		list[i], stored[i] = newAuditRecord(r), r.Record
	}
	profiles, err := s.actorProfiles(ctx, stored)
	if err != nil {
		return nil, err
	}
	for i, r := range records {
		p := profiles[r.Actor.ID]
		list[i].Actor.DisplayName, list[i].Actor.AvatarURL = p.Name, p.AvatarURL
	}
	return list, nil
}

// actorProfiles returns the profiles of the people among the actors of records, by user id.
func (s *Server) actorProfiles(ctx context.Context, records []events.Record) (map[events.ID]projections.Profile, error) {
	var ids []events.ID
	for _, r := range records {
		if r.Actor.Type == events.ByUser && !slices.Contains(ids, r.Actor.ID) {
			ids = append(ids, r.Actor.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return s.Primary.Users.Profiles(ctx, ids)
}

// redactActor returns an actor as c may see it. A service account does not see who a person is.
func (c *caller) redactActor(a auditActor) auditActor {
	if c.token != nil && a.Type == events.ByUser {
		a.Name, a.DisplayName, a.AvatarURL = "", "", ""
	}
	return a
}

// redactJob returns a job as c may see it, like redactActor.
func (c *caller) redactJob(j projections.Job) projections.Job {
	if c.token == nil {
		return j
	}
	if j.SubmittedBy.Type == events.ByUser {
		j.SubmittedBy.Name = ""
	}
	if j.Cancel != nil && j.Cancel.By.Type == events.ByUser {
		cancel := *j.Cancel
		cancel.By.Name, j.Cancel = "", &cancel
	}
	return j
}
