package seed

import (
	"fmt"
	"strings"
	"time"

	"svc/commands"
	"svc/events"
)

// Password is that of every demonstration person.
const Password = "demonstration"

// An Identity is what a code host knows of a demonstration person.
type Identity struct{ Name, Email string }

// People returns the demonstration people, in the order in which they joined.
func People() []Identity {
	return []Identity{
		{"Ada Lind", "ada@acme.example"},
		{"Ben Okoro", "ben@acme.example"},
		{"Mia Torres", "mia@acme.example"},
		{"Max Weber", "max@acme.example"},
		{"Vera Novak", "vera@acme.example"},
		{"Leo Brandt", "leo@acme.example"},
		{"Greta Holm", "greta@globex.example"},
	}
}

// A character is a demonstration person. They own a personal workspace.
type character struct {
	name, email string
	user        events.ID
}

func (c character) actor() events.Actor {
	return events.Actor{Type: events.ByUser, ID: c.user, Name: c.email}
}

// A cast is everybody, by the first name.
type cast map[string]character

func (s *seed) people() (cast, error) {
	team := cast{}
	for _, p := range People() {
		first, _, _ := strings.Cut(p.Name, " ")
		slug := strings.ToLower(first)
		c := character{name: p.Name, email: p.Email, user: s.id()}
		meta := commands.Meta{Envelope: events.Envelope{Actor: c.actor(), Origin: events.FromAuth}, Workspace: s.id()}
		_, err := s.commands.RegisterUser(s.ctx, commands.RegisterUser{
			Meta: meta, User: c.user, Member: s.id(), Name: c.name, Emails: []string{c.email},
			WorkspaceName: c.name + "'s workspace", WorkspaceSlug: slug,
		})
		if err != nil {
			return nil, fmt.Errorf("register %s: %w", c.email, err)
		}
		if err := s.passwords.Set(s.ctx, c.user, Password); err != nil {
			return nil, err
		}
		team[slug] = c
		s.later(time.Minute)
	}
	return team, nil
}

// A place is a demonstration workspace.
type place struct {
	id    events.ID
	slug  string
	owner character
	repos []events.Repo
}

// by begins a command of a person in the web app.
func (p place) by(c character) commands.Meta {
	return commands.Meta{Envelope: events.Envelope{Actor: c.actor(), Origin: events.FromUI}, Workspace: p.id}
}

// bySystem begins a command that nobody asked for.
func (p place) bySystem(name string) commands.Meta {
	return commands.Meta{Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: name},
		Origin: events.FromSystem}, Workspace: p.id}
}

func (s *seed) workspaces(team cast) (acme, globex place, err error) {
	acme, err = s.workspace("Acme", "acme", team["ada"], acmeRepos...)
	if err != nil {
		return acme, globex, err
	}
	globex, err = s.workspace("Globex", "globex", team["greta"], globexRepos...)
	if err != nil {
		return acme, globex, err
	}
	for _, m := range []struct {
		place place
		who   string
		role  events.Role
	}{
		{acme, "ben", events.Maintainer}, {acme, "mia", events.Maintainer}, {acme, "max", events.Viewer},
		{acme, "vera", events.Viewer}, {acme, "leo", events.Legacy}, {globex, "mia", events.Viewer},
	} {
		if err := s.join(m.place, team[m.who], m.role); err != nil {
			return acme, globex, err
		}
	}
	for _, c := range []struct {
		who    string
		change commands.UpdateMember
	}{
		{"ben", commands.UpdateMember{Role: role(events.Owner)}},
		{"max", commands.UpdateMember{Role: role(events.Maintainer), ApproveLoops: new(bool)}},
	} {
		if err := s.change(acme, team[c.who], c.change); err != nil {
			return acme, globex, err
		}
	}
	if err := s.invite(acme, s.id(), "piet@acme.example", events.Viewer); err != nil { // who never answered
		return acme, globex, err
	}
	return acme, globex, s.accounts(acme)
}

func (s *seed) workspace(name, slug string, owner character, repos ...string) (place, error) {
	p := place{id: s.id(), slug: slug, owner: owner}
	_, err := s.commands.CreateWorkspace(s.ctx, commands.CreateWorkspace{
		Meta: p.by(owner), Member: s.id(), Email: owner.email, Person: owner.name, Name: name, Slug: slug,
	})
	if err != nil {
		return p, fmt.Errorf("create workspace %s: %w", slug, err)
	}
	for _, repo := range repos {
		p.repos = append(p.repos, events.Repo{ID: s.id(), Name: repo})
	}
	s.demo.add(p, owner, events.Owner)
	s.later(time.Minute)
	return p, nil
}

// join lets somebody in: by an invitation or, with the legacy role, to which
// nobody can be invited any more, without.
func (s *seed) join(p place, c character, r events.Role) error {
	member := s.id()
	var err error
	if r == events.Legacy {
		_, err = s.commands.AddMember(s.ctx, commands.AddMember{
			Meta: p.bySystem("seed"), Member: member, User: c.user, Email: c.email, Name: c.name, Role: r,
		})
	} else {
		invitation := s.id()
		if err := s.invite(p, invitation, c.email, r); err != nil {
			return err
		}
		_, err = s.commands.AcceptInvitation(s.ctx, commands.AcceptInvitation{
			Meta: p.by(c), Invitation: invitation, Member: member, Name: c.name, Emails: []string{c.email},
		})
	}
	if err != nil {
		return fmt.Errorf("add %s to %s: %w", c.email, p.slug, err)
	}
	s.demo.add(p, c, r)
	s.demo.members[[2]events.ID{p.id, c.user}] = member
	s.later(time.Minute)
	return nil
}

func (s *seed) invite(p place, invitation events.ID, email string, r events.Role) error {
	_, err := s.commands.SendInvitation(s.ctx, commands.SendInvitation{
		Meta: p.by(p.owner), Invitation: invitation, Email: email, Role: r,
	})
	if err != nil {
		return fmt.Errorf("invite %s to %s: %w", email, p.slug, err)
	}
	s.later(time.Minute)
	return nil
}

func (s *seed) change(p place, c character, change commands.UpdateMember) error {
	change.Meta, change.Member = p.by(p.owner), s.demo.members[[2]events.ID{p.id, c.user}]
	if _, err := s.commands.UpdateMember(s.ctx, change); err != nil {
		return fmt.Errorf("change %s in %s: %w", c.email, p.slug, err)
	}
	if change.Role != nil {
		s.demo.setRole(p, c, *change.Role)
	}
	s.later(time.Minute)
	return nil
}

func role(r events.Role) *events.Role { return &r }
