package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/projections"
)

// newRegistration returns the registration of a person who signs in with an account of
// their name.
func newRegistration(name string, emails ...string) commands.RegisterUser {
	p := newPerson(name)
	home := newID()
	return commands.RegisterUser{
		Meta: p.in(home), User: p.user, Member: p.member, Name: name, Emails: emails,
		WorkspaceName: name + "'s", WorkspaceSlug: "w" + home.String()[24:],
		Account: events.UserAccountLinked{User: p.user, Provider: "github", Account: name, Login: name},
	}
}

// refresh returns what the provider reports when a person signs in again.
func refresh(of commands.RegisterUser, emails ...string) commands.RefreshUser {
	return commands.RefreshUser{Meta: of.Meta, Emails: emails, Account: of.Account}
}

func (s *system) registered(t *testing.T, name string, emails ...string) commands.RegisterUser {
	t.Helper()
	c := newRegistration(name, emails...)
	_, err := s.RegisterUser(t.Context(), c)
	require.NoError(t, err)
	return c
}

// holder returns the holder of an address or an account.
func (s *system) holder(t *testing.T, key string) events.ID {
	t.Helper()
	_, user, err := s.log.Holder(t.Context(), key)
	require.NoError(t, err)
	return user
}

func (s *system) emails(t *testing.T, user events.ID) []string {
	t.Helper()
	var first string
	var all []string
	require.NoError(t, s.db.QueryRow(t.Context(), `select email, emails from users where user_id = $1`, user).Scan(&first, &all))
	require.Equal(t, all[0], first)
	return all
}

func TestPersonIsRegisteredWithAccount(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ann := s.registered(t, "ann", "ann@acme.example")
	require.Contains(t, s.history(t, ann.Workspace, 1), events.Event(ann.Account))
	require.Equal(t, ann.User, s.holder(t, "account/github/ann"))
	list, err := projections.Accounts{DB: s.db}.ForUser(t.Context(), ann.User)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, [3]string{"github", "ann", "ann"}, [3]string{list[0].Provider, list[0].AccountID, list[0].Login})

	thief := newRegistration("ann", "thief@acme.example")
	_, err = s.other.RegisterUser(t.Context(), thief)
	require.ErrorIs(t, err, commands.ErrAccountTaken)
	require.Zero(t, s.head(t, thief.Workspace))
	require.Zero(t, s.holder(t, events.EmailKey("thief@acme.example")), "what was refused keeps nothing")
}

// Two browsers of one new person return from the provider at the same time.
func TestPersonIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for range 10 {
		name := "p" + newID().String()[24:]
		errs := race(func(i int) error {
			_, err := []replica{s.replica, s.other}[i].RegisterUser(t.Context(), newRegistration(name, name+"@acme.example"))
			return err
		})
		if errs[0] != nil {
			errs[0], errs[1] = errs[1], errs[0]
		}
		require.NoError(t, errs[0])
		requireAnyOf(t, errs[1], []error{commands.ErrEmailTaken, commands.ErrAccountTaken})
	}
	var people, homes, accounts int
	require.NoError(t, s.db.QueryRow(t.Context(), `
		select (select count(*) from users), (select count(*) from workspaces), (select count(*)
			from accounts)`).Scan(&people, &homes, &accounts))
	require.Equal(t, [3]int{10, 10, 10}, [3]int{people, homes, accounts})
}

func TestRefreshUser(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	other := sys.registered(t, "other", "taken@acme.example")
	gitea := func(c commands.RefreshUser, account string) commands.RefreshUser {
		c.Account.Provider, c.Account.Account = "gitea", account
		return c
	}
	linked := events.UserAccountLinked{Provider: "gitea", Account: "a7", Login: "x"}
	for name, test := range map[string]struct {
		emails  []string // in addition to "NAME@" there is "NAME@home"
		account string   // at another provider; the known one if empty
		want    int      // number of events
		held    []string
		freed   []string
		refusal error
	}{
		"the same":                    {emails: []string{"a", "b"}, held: []string{"a", "b"}},
		"one more":                    {emails: []string{"a", "b", "c"}, want: 1, held: []string{"a", "b", "c"}},
		"one less":                    {emails: []string{"b"}, want: 1, held: []string{"b"}, freed: []string{"a"}},
		"other ones":                  {emails: []string{"c"}, want: 1, held: []string{"c"}, freed: []string{"a", "b"}},
		"in another order":            {emails: []string{"b", "a"}, want: 1, held: []string{"b", "a"}},
		"another account":             {emails: []string{"a", "b"}, account: "new", want: 1, held: []string{"a", "b"}},
		"both":                        {emails: []string{"c", "a"}, account: "new", want: 2, held: []string{"c", "a"}, freed: []string{"b"}},
		"no address":                  {held: []string{"a", "b"}},
		"no address, another account": {account: "new", want: 1, held: []string{"a", "b"}},
		"somebody else's address":     {emails: []string{"a", "taken"}, held: []string{"a", "b"}, refusal: commands.ErrEmailTaken},
		"somebody else's account": {emails: []string{"a", "c"}, account: "taken", held: []string{"a", "b"}, freed: []string{"c"},
			refusal: commands.ErrAccountTaken},
	} {
		t.Run(name, func(t *testing.T) {
			s := sys
			n := "p" + newID().String()[24:]
			address := func(short string) string {
				if short == "taken" {
					return "taken@acme.example"
				}
				return n + short + "@acme.example"
			}
			p := s.registered(t, n, address("a"), address("b"))
			var emails []string
			for _, e := range test.emails {
				emails = append(emails, address(e))
			}
			c := refresh(p, emails...)
			switch test.account {
			case "new":
				c = gitea(c, n)
			case "taken":
				c.Account.Account = other.Account.Account
			}
			before := s.head(t, p.Workspace)
			_, err := s.other.RefreshUser(t.Context(), c)
			require.ErrorIs(t, err, test.refusal)
			require.Len(t, s.records(t, p.Workspace, before+1), test.want)
			var held []string
			for _, e := range test.held {
				held = append(held, address(e))
				require.Equal(t, p.User, s.holder(t, events.EmailKey(address(e))), e)
			}
			require.Equal(t, held, s.emails(t, p.User))
			for _, e := range test.freed {
				require.Zero(t, s.holder(t, events.EmailKey(address(e))), e)
			}
			if test.account == "new" {
				linked.Account = n
				require.Equal(t, p.User, s.holder(t, events.AccountKey(linked)))
			}
		})
	}
	require.Equal(t, []string{"taken@acme.example"}, sys.emails(t, other.User))
}

func TestReleasedAddressIsFree(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ann := s.registered(t, "ann", "ann@acme.example", "shared@acme.example")
	_, err := s.RefreshUser(t.Context(), refresh(ann, "ann@acme.example"))
	require.NoError(t, err)
	bob := s.registered(t, "bob", "shared@acme.example")
	_, err = s.other.RefreshUser(t.Context(), refresh(ann, "ann@acme.example", "shared@acme.example"))
	require.ErrorIs(t, err, commands.ErrEmailTaken)
	require.Equal(t, bob.User, s.holder(t, events.EmailKey("shared@acme.example")))
	names, err := projections.Users{DB: s.db}.Names(t.Context(), []string{"ann@acme.example", "shared@acme.example", "no@acme.example", ""})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"ann@acme.example": "ann", "shared@acme.example": "bob"}, names)
}

// Two people's providers report the same new address at the same moment.
func TestAddressHasOneHolder(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	two := [2]commands.RegisterUser{s.registered(t, "ann", "ann@acme.example"), s.registered(t, "bob", "bob@acme.example")}
	for range 15 {
		address := newID().String() + "@acme.example"
		requireOne(t, race(func(i int) error {
			_, err := []replica{s.replica, s.other}[i].RefreshUser(t.Context(), refresh(two[i], two[i].Emails[0], address))
			return err
		}), commands.ErrEmailTaken)
		held := s.holder(t, events.EmailKey(address))
		for _, p := range two {
			require.Equal(t, held == p.User, len(s.emails(t, p.User)) == 2)
			_, err := s.RefreshUser(t.Context(), refresh(p, p.Emails...))
			require.NoError(t, err)
		}
	}
}

func TestSignInAndSignOutAreRecorded(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ann, session := s.registered(t, "ann", "ann@acme.example"), newID()
	before := s.head(t, ann.Workspace)
	_, err := s.RecordSignIn(t.Context(), commands.RecordSignIn{Meta: ann.Meta, Email: "ann@acme.example", Session: session, Method: "github"})
	require.NoError(t, err)
	_, err = s.EndSessions(t.Context(), commands.EndSessions{Meta: ann.Meta})
	require.NoError(t, err, "who ended nothing")
	_, err = s.EndSessions(t.Context(), commands.EndSessions{Meta: ann.Meta, Sessions: []events.ID{session}})
	require.NoError(t, err)
	s.requireAdded(t, ann.Workspace, before,
		events.UserSignedIn{User: ann.User, Email: "ann@acme.example", Session: session, Method: "github"},
		events.UserSignedOut{User: ann.User, Sessions: []events.ID{session}})

	stranger := newPerson("stranger").in(ann.Workspace)
	_, err = s.RecordSignIn(t.Context(), commands.RecordSignIn{Meta: stranger, Session: session})
	require.ErrorIs(t, err, aggregates.ErrNoUser)
}
