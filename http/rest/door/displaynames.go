package door

import (
	"context"
	"slices"
	"strings"

	"svc/events"
	"svc/http/rest/schema"
	"svc/projections"
)

// ActorProfiles returns the profiles of the people among the actors of records, by user id.
func (d *Door) ActorProfiles(ctx context.Context, records []events.Record) (map[events.ID]projections.Profile, error) {
	var ids []events.ID
	for _, r := range records {
		if r.Actor.Type == events.ByUser && !slices.Contains(ids, r.Actor.ID) {
			ids = append(ids, r.Actor.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return d.Users.Profiles(ctx, ids)
}

// A NamePlace is where an answer has the name of the person whose address it also has.
type NamePlace struct {
	Address string
	Name    *string
}

// AddNames adds the current names of people to an answer, by one look-up. Other actors have none, nor does anybody for a
// service account, which does not see who a person is.
func AddNames[T any](ctx context.Context, d *Door, list []T, places func(*T) []NamePlace) error {
	var all []NamePlace
	var addresses []string
	for i := range list {
		for _, p := range places(&list[i]) {
			if strings.Contains(p.Address, "@") {
				all, addresses = append(all, p), append(addresses, p.Address)
			}
		}
	}
	if len(all) == 0 || CallerOf(ctx).Token != nil {
		return nil
	}
	names, err := d.Users.Names(ctx, addresses)
	for _, p := range all {
		*p.Name = names[p.Address]
	}
	return err
}

// WithNames is AddNames for one object.
func WithNames[T any](ctx context.Context, d *Door, one T, places func(*T) []NamePlace) (T, error) {
	list := []T{one}
	err := AddNames(ctx, d, list, places)
	return list[0], err
}

// RedactActor returns an actor as c may see it. A service account does not see who a person is.
func (c *Caller) RedactActor(a schema.AuditActor) schema.AuditActor {
	if c.Token != nil && a.Type == events.ByUser {
		a.Name, a.DisplayName, a.AvatarURL = "", "", ""
	}
	return a
}
