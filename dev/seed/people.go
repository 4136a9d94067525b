package seed

import (
	"fmt"
	"strings"
	"time"

	"svc/commands"
	"svc/events"
)

// Password is the password of every demonstration person.
const Password = "demonstration"

// An Identity is what a code host knows about a demonstration person, with the role in the workspace of their address.
type Identity struct {
	Name, Email string
	Role        events.Role
}

// People returns the demonstration people, in the order in which they joined.
func People() []Identity {
	return []Identity{
		{"Ada Lind", "ada@acme.example", events.Owner},
		{"Ben Okoro", "ben@acme.example", events.Owner},
		{"Mia Torres", "mia@acme.example", events.Maintainer},
		{"Max Weber", "max@acme.example", events.Maintainer},
		{"Vera Novak", "vera@acme.example", events.Viewer},
		{"Leo Brandt", "leo@acme.example", events.Legacy},
		{"Greta Holm", "greta@globex.example", events.Owner},
	}
}

// A demoPerson is a demonstration person. Each owns a personal workspace.
type demoPerson struct {
	name, email string
	user        events.ID
}

func (c demoPerson) actor() events.Actor {
	return events.Actor{Type: events.ByUser, ID: c.user, Name: c.email}
}

// A demoPeople has all people, by first name in lower case.
type demoPeople map[string]demoPerson

func (s *seed) people() (demoPeople, error) {
	team := demoPeople{}
	for _, p := range People() {
		first, _, _ := strings.Cut(p.Name, " ")
		slug := strings.ToLower(first)
		c := demoPerson{name: p.Name, email: p.Email, user: s.id()}
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
		s.advance(time.Minute)
	}
	return team, nil
}

// A demoWorkspace is a demonstration workspace.
type demoWorkspace struct {
	id    events.ID
	slug  string
	owner demoPerson
	repos []events.Repo
}

// by returns the Meta of a command by a person in the web app.
func (p demoWorkspace) by(c demoPerson) commands.Meta {
	return commands.Meta{Envelope: events.Envelope{Actor: c.actor(), Origin: events.FromUI}, Workspace: p.id}
}

// bySystem returns the Meta of a command by a part of the system.
func (p demoWorkspace) bySystem(name string) commands.Meta {
	return commands.Meta{Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: name},
		Origin: events.FromSystem}, Workspace: p.id}
}

func (s *seed) workspaces(team demoPeople) (acme, globex demoWorkspace, err error) {
	acme, err = s.workspace("Acme", "acme", team["ada"], acmeRepos...)
	if err != nil {
		return acme, globex, err
	}
	globex, err = s.workspace("Globex", "globex", team["greta"], globexRepos...)
	if err != nil {
		return acme, globex, err
	}
	for _, m := range []struct {
		place demoWorkspace
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
	if err := s.invite(acme, s.id(), "piet@acme.example", events.Viewer); err != nil { // never answered
		return acme, globex, err
	}
	return acme, globex, s.accounts(acme)
}

func (s *seed) workspace(name, slug string, owner demoPerson, repos ...string) (demoWorkspace, error) {
	p := demoWorkspace{id: s.id(), slug: slug, owner: owner}
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
	s.advance(time.Minute)
	return p, nil
}

// join adds a member: by an invitation or, for the legacy role, to which nobody can be invited any
// more, directly.
func (s *seed) join(p demoWorkspace, c demoPerson, r events.Role) error {
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
	s.advance(time.Minute)
	return nil
}

func (s *seed) invite(p demoWorkspace, invitation events.ID, email string, r events.Role) error {
	_, err := s.commands.SendInvitation(s.ctx, commands.SendInvitation{
		Meta: p.by(p.owner), Invitation: invitation, Email: email, Role: r,
	})
	if err != nil {
		return fmt.Errorf("invite %s to %s: %w", email, p.slug, err)
	}
	s.advance(time.Minute)
	return nil
}

func (s *seed) change(p demoWorkspace, c demoPerson, change commands.UpdateMember) error {
	change.Meta, change.Member = p.by(p.owner), s.demo.members[[2]events.ID{p.id, c.user}]
	if _, err := s.commands.UpdateMember(s.ctx, change); err != nil {
		return fmt.Errorf("change %s in %s: %w", c.email, p.slug, err)
	}
	if change.Role != nil {
		s.demo.setRole(p, c, *change.Role)
	}
	s.advance(time.Minute)
	return nil
}

func role(r events.Role) *events.Role { return &r }
