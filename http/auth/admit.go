package auth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/input"
	"svc/projections"
)

// admit signs in the person whom the provider named: whoever has the account,
// or else a verified address of theirs, or else somebody new. made tells that
// they are new.
func (s *Server) admit(v *visit, provider string, who profile) (made bool, err error) {
	linked := events.UserAccountLinked{Provider: provider, Account: strconv.FormatInt(who.ID, 10), Login: who.Login}
	home, user, made, err := s.take(v, who, linked)
	if errors.Is(err, errNotLinked) { // somebody was faster: perhaps they themselves, in another window
		home, user, made, err = s.take(v, who, linked)
	}
	if err != nil {
		return false, err
	}
	return made, s.start(v, user, home, provider, true)
}

func (s *Server) take(v *visit, who profile, linked events.UserAccountLinked) (home, user events.ID, made bool, err error) {
	home, user, err = s.Keys.Holder(v.Context(), events.AccountKey(linked))
	for i := 0; err == nil && user.IsZero() && i < len(who.emails); i++ {
		home, user, err = s.Keys.Holder(v.Context(), events.EmailKey(who.emails[i]))
	}
	switch {
	case err != nil:
	case user.IsZero():
		made = true
		home, user, err = s.register(v, who, linked)
	default:
		err = s.refresh(v, home, user, who, linked)
	}
	return home, user, made, err
}

const slugTries = 20

// register makes a person with a personal workspace, whose slug is their login
// or, where that is taken, the login with a number.
func (s *Server) register(v *visit, who profile, linked events.UserAccountLinked) (home, user events.ID, err error) {
	home, user = events.NewID(s.Now()), events.NewID(s.Now())
	linked.User = user
	v.session.User, v.session.Email = user, who.emails[0]
	name := who.shownName()
	for try := range slugTries {
		_, err = s.Commands.RegisterUser(v.Context(), commands.RegisterUser{
			Meta: v.meta(home), User: user, Member: events.NewID(s.Now()), Name: name, Emails: who.emails, AvatarURL: who.AvatarURL,
			WorkspaceName: homeOf(name), WorkspaceSlug: slug(who.Login, try), Account: linked,
		})
		if !errors.Is(err, aggregates.ErrSlugTaken) {
			break
		}
	}
	if errors.Is(err, commands.ErrEmailTaken) || errors.Is(err, commands.ErrAccountTaken) {
		err = fmt.Errorf("%w: %w", errNotLinked, err) // somebody was faster
	}
	return home, user, err
}

// homeOf names the personal workspace of a person.
func homeOf(name string) string {
	const of = "'s workspace"
	return input.Cut(name, input.MaxName-len(of)) + of
}

// slug is the one of a personal workspace that is tried.
func slug(login string, try int) string {
	switch base := input.SlugOf(login); {
	case try > slugTries/2: // a login that many have
		return base + "-" + strconv.Itoa(10_000+rand.IntN(90_000)) //nolint:gosec // no secret
	case try > 0:
		return base + "-" + strconv.Itoa(try+1)
	default:
		return base
	}
}

// sameAccount refuses an account other than the one by which the person signs in
// at the same provider: an address that was given up there and verified by
// somebody else does not open the first one's door.
func (s *Server) sameAccount(v *visit, user events.ID, linked events.UserAccountLinked) error {
	accounts, err := s.Accounts.Of(v.Context(), user)
	if err != nil {
		return err
	}
	other := false
	for _, a := range accounts {
		if a.Provider == linked.Provider && a.AccountID == linked.Account {
			return nil
		}
		other = other || a.Provider == linked.Provider
	}
	if other {
		return errNotLinked
	}
	return nil
}

// refresh takes in what the provider says now of somebody who is known. An
// address that another person holds stays theirs.
func (s *Server) refresh(v *visit, home, user events.ID, who profile, linked events.UserAccountLinked) error {
	known, ok, err := s.Users.Of(v.Context(), user)
	if err != nil || !ok {
		return orElse(err, errNotLinked)
	}
	if err := s.sameAccount(v, user, linked); err != nil {
		return err
	}
	v.session.User, v.session.Email, linked.User = user, known.Email, user
	var emails []string
	for _, address := range who.emails {
		_, holder, err := s.Keys.Holder(v.Context(), events.EmailKey(address))
		if err != nil {
			return err
		}
		if holder.IsZero() || holder == user {
			emails = append(emails, address)
		}
	}
	_, err = s.Commands.RefreshUser(v.Context(), commands.RefreshUser{Meta: v.meta(home), Emails: emails, Account: linked})
	if err == nil && len(emails) > 0 {
		s.present(v, known, emails[0])
	}
	if errors.Is(err, commands.ErrEmailTaken) || errors.Is(err, commands.ErrAccountTaken) {
		err = fmt.Errorf("%w: %w", errNotLinked, err) // somebody was faster
	}
	return err
}

// presentLimit is how long a sign-in waits for the workspaces of a person.
const presentLimit = 2 * time.Second

// present tells workspaces what one of their members is called, and their address,
// where they know it otherwise or not at all. Lists of members are ordered by that and
// nothing else depends on it: whoever cannot be told is told at the next sign-in.
func (s *Server) present(v *visit, who projections.User, email string) {
	ctx, cancel := context.WithTimeout(v.Context(), presentLimit)
	defer cancel()
	list, err := s.Members.CalledOtherwise(ctx, who.ID, who.Name, email)
	for _, workspace := range list {
		if err == nil {
			_, err = s.Commands.RefreshMember(ctx, commands.RefreshMember{Meta: v.meta(workspace), Name: who.Name, Email: email})
		}
	}
	if err != nil {
		s.Log.WarnContext(ctx, "workspaces were not told what a member is called", "user", who.ID, "err", err)
	}
}
