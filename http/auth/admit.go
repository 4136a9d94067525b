package auth

import (
	"errors"
	"fmt"
	"strconv"

	"svc/commands"
	"svc/events"
)

// admit signs in the person whom the provider named. made tells that they are new.
func (s *Server) admit(v *visit, provider string, who profile) (made bool, err error) {
	person, err := s.commands.SignIn(v.Context(), commands.SignIn{
		Meta:    v.meta(events.ID{}),
		Account: events.UserAccountLinked{Provider: provider, Account: strconv.FormatInt(who.ID, 10), Login: who.Login},
		Name:    who.shownName(), Emails: who.emails, AvatarURL: who.AvatarURL,
		StaleMemberships: s.members.WorkspacesWithOtherProfile,
	})
	if errors.Is(err, commands.ErrNotLinked) {
		return false, fmt.Errorf("%w: %w", errNotLinked, err)
	}
	if err != nil {
		return false, err
	}
	return person.New, s.start(v, person.User, person.Home, provider, true)
}
