package world

import (
	"context"
	"fmt"
	"math/rand/v2"

	"svc/commands"
	"svc/events"
)

// A guestList is the people whom a player invites. It has its own random source, so that guests do not change
// what members do.
type guestList struct {
	random      *rand.Rand
	people      []commands.RegisterUser
	invitations []invitation
}

type invitation struct {
	id    events.ID
	guest int // index into people; -1 for an address that nobody signs in with
}

// stepGuest invites a guest, or lets one answer an invitation, sign in, or change their addresses or account.
func (p *Player) stepGuest(ctx context.Context) (err error) {
	g := &p.guests
	if g.random == nil {
		g.random = rand.New(rand.NewPCG(p.random.Uint64(), 4))
	}
	if len(g.people) < 3 {
		return p.registerGuest(ctx)
	}
	luck := g.random.IntN(100)
	i := invitation{id: NewID()}
	if len(g.invitations) > 0 {
		i = g.invitations[g.random.IntN(len(g.invitations))]
	}
	who := g.people[max(0, i.guest)]
	if luck%10 == 0 { // a guest who was not invited answers
		who = g.people[g.random.IntN(len(g.people))]
	}
	visitor, admin := Meta(p.Workspace, who.Actor), Meta(p.Workspace, p.Owner)
	switch {
	case luck < 8:
		err = p.registerGuest(ctx)
	case luck < 40:
		err = p.invite(ctx)
	case luck < 50:
		_, err = p.Commands.ResendInvitation(ctx, commands.ResendInvitation{Meta: admin, Invitation: i.id})
	case luck < 55:
		_, err = p.Commands.RevokeInvitation(ctx, commands.RevokeInvitation{Meta: admin, Invitation: i.id})
	case luck < 70:
		_, err = p.Commands.AcceptInvitation(ctx,
			commands.AcceptInvitation{Meta: visitor, Invitation: i.id, Member: NewID(), Name: "Guest " + p.text(), Emails: who.Emails})
	case luck < 76:
		_, err = p.Commands.RejectInvitation(ctx, commands.RejectInvitation{Meta: visitor, Invitation: i.id, Emails: who.Emails})
	case luck < 84:
		emails := append([]string{fmt.Sprintf("moved-%s@x", NewID())}, who.Emails[len(who.Emails)-1])
		_, err = p.Commands.RefreshUser(ctx, commands.RefreshUser{Meta: Meta(who.Workspace, who.Actor), Emails: emails, Account: who.Account})
	case luck < 88:
		account := who.Account
		account.Provider, account.Account = "gitea", NewID().String()
		_, err = p.Commands.RefreshUser(ctx, commands.RefreshUser{Meta: Meta(who.Workspace, who.Actor), Emails: who.Emails, Account: account})
	case luck < 96:
		_, err = p.Commands.RecordSignIn(ctx,
			commands.RecordSignIn{Meta: Meta(who.Workspace, who.Actor), Email: who.Emails[0], Session: NewID(), Method: "github"})
	default:
		_, err = p.Commands.EndSessions(ctx, commands.EndSessions{Meta: Meta(who.Workspace, who.Actor), Sessions: []events.ID{NewID(), NewID()}})
	}
	return err
}

// registerGuest registers a user who can be invited.
func (p *Player) registerGuest(ctx context.Context) error {
	user, home := NewID(), NewID()
	email := fmt.Sprintf("guest-%s@x", user)
	c := commands.RegisterUser{
		Meta: Meta(home, events.Actor{Type: events.ByUser, ID: user, Name: email}), User: user, Member: NewID(),
		Name: "Guest", Emails: []string{"first." + email, email}, WorkspaceName: "Home", WorkspaceSlug: "g" + home.String()[24:],
		Account: events.UserAccountLinked{User: user, Provider: "github", Account: user.String(), Login: "guest"},
	}
	p.guests.people = append(p.guests.people, c)
	_, err := p.Commands.RegisterUser(ctx, c)
	return err
}

// invite sends an invitation to a guest or, once in six times, to an address that nobody signs in with.
func (p *Player) invite(ctx context.Context) error {
	g, i, email := &p.guests, invitation{NewID(), -1}, fmt.Sprintf("nobody-%s@x.example", NewID())
	if n := len(g.people); n > 0 && g.random.IntN(6) > 0 {
		i.guest = g.random.IntN(n)
		email = g.people[i.guest].Emails[1]
	}
	g.invitations = append(g.invitations, i)
	_, err := p.Commands.SendInvitation(ctx, commands.SendInvitation{
		Meta: Meta(p.Workspace, p.Owner), Invitation: i.id, Email: email,
		Role: []events.Role{events.Owner, events.Maintainer, events.Viewer}[len(g.invitations)%3],
	})
	return err
}
