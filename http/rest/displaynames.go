package rest

import (
	"context"
	"slices"
	"strings"

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

// A namePlace is where an answer has the name of the person whose address it also has.
type namePlace struct {
	address string
	name    *string
}

// addNames adds the current names of people to an answer, by one look-up. Other actors have none, nor does anybody for a
// service account, which does not see who a person is.
func addNames[T any](ctx context.Context, s *Server, list []T, places func(*T) []namePlace) error {
	var all []namePlace
	var addresses []string
	for i := range list {
		for _, p := range places(&list[i]) {
			if strings.Contains(p.address, "@") {
				all, addresses = append(all, p), append(addresses, p.address)
			}
		}
	}
	if len(all) == 0 || callerOf(ctx).token != nil {
		return nil
	}
	names, err := s.Primary.Users.Names(ctx, addresses)
	for _, p := range all {
		*p.name = names[p.address]
	}
	return err
}

// withNames is addNames for one object.
func withNames[T any](ctx context.Context, s *Server, one T, places func(*T) []namePlace) (T, error) {
	list := []T{one}
	err := addNames(ctx, s, list, places)
	return list[0], err
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
