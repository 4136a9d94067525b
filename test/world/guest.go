package world

import (
	"context"
	"fmt"
	"math/rand/v2"

	"svc/commands"
	"svc/events"
)

// guests are the people whom a player invites, with luck of their own.
type guests struct {
	random  *rand.Rand
	people  []commands.RegisterUser
	letters []letter
}

type letter struct {
	id   events.ID
	whom int // of the people, -1 for who never signs in
}

// guest lets somebody be invited, answer, sign in, or change who they are.
func (p *Player) guest(ctx context.Context) (err error) {
	g := &p.guests
	if g.random == nil {
		g.random = rand.New(rand.NewPCG(p.random.Uint64(), 4))
	}
	if len(g.people) < 3 {
		return p.comes(ctx)
	}
	luck := g.random.IntN(100)
	l := letter{id: NewID()}
	if len(g.letters) > 0 {
		l = g.letters[g.random.IntN(len(g.letters))]
	}
	who := g.people[max(0, l.whom)]
	if luck%10 == 0 { // somebody else opens it
		who = g.people[g.random.IntN(len(g.people))]
	}
	visitor, admin := Meta(p.Workspace, who.Actor), Meta(p.Workspace, p.Owner)
	switch {
	case luck < 8:
		err = p.comes(ctx)
	case luck < 40:
		err = p.invites(ctx)
	case luck < 50:
		_, err = p.Commands.ResendInvitation(ctx, commands.ResendInvitation{Meta: admin, Invitation: l.id})
	case luck < 55:
		_, err = p.Commands.RevokeInvitation(ctx, commands.RevokeInvitation{Meta: admin, Invitation: l.id})
	case luck < 70:
		_, err = p.Commands.AcceptInvitation(ctx,
			commands.AcceptInvitation{Meta: visitor, Invitation: l.id, Member: NewID(), Name: "Guest " + p.text(), Emails: who.Emails})
	case luck < 76:
		_, err = p.Commands.RejectInvitation(ctx, commands.RejectInvitation{Meta: visitor, Invitation: l.id, Emails: who.Emails})
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

// comes registers somebody who may be invited.
func (p *Player) comes(ctx context.Context) error {
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

// invites sends an invitation, at times to somebody who never signs in.
func (p *Player) invites(ctx context.Context) error {
	g, l, email := &p.guests, letter{NewID(), -1}, fmt.Sprintf("nobody-%s@x.example", NewID())
	if n := len(g.people); n > 0 && g.random.IntN(6) > 0 {
		l.whom = g.random.IntN(n)
		email = g.people[l.whom].Emails[1]
	}
	g.letters = append(g.letters, l)
	_, err := p.Commands.SendInvitation(ctx, commands.SendInvitation{
		Meta: Meta(p.Workspace, p.Owner), Invitation: l.id, Email: email,
		Role: []events.Role{events.Owner, events.Maintainer, events.Viewer}[len(g.letters)%3],
	})
	return err
}
