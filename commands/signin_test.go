package commands_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/projections"
)

// signedIn signs somebody in through a replica.
func (s *system) signedIn(t *testing.T, r replica, provider, account, login string, emails ...string) (commands.Person, error) {
	t.Helper()
	return r.SignIn(t.Context(), commands.SignIn{
		Meta:    commands.Meta{Envelope: events.Envelope{Origin: events.FromAuth, RequestID: "r-1"}},
		Account: events.UserAccountLinked{Provider: provider, Account: account, Login: login},
		Name:    strings.ToUpper(login), Emails: emails,
	})
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ann, err := s.signedIn(t, s.replica, "github", "1", "ann", "ann@acme.example", "ann@home.example")
	require.NoError(t, err)
	require.True(t, ann.New)
	require.Equal(t, events.Actor{Type: events.ByUser, ID: ann.User, Name: "ann@acme.example"}, ann.Meta.Actor)
	require.Equal(t, ann.Home, ann.Meta.Workspace)
	require.Equal(t, ann.Home, s.holder(t, events.SlugKey("ann")))
	bob, err := s.signedIn(t, s.other, "github", "2", "ann", "bob@acme.example")
	require.NoError(t, err, "of the same login")
	require.Equal(t, bob.Home, s.holder(t, events.SlugKey("ann-2")))
	before := s.head(t, ann.Home)

	again := func(provider, account string, emails ...string) events.ID {
		t.Helper()
		p, err := s.signedIn(t, s.other, provider, account, "ann", emails...)
		require.NoError(t, err)
		require.False(t, p.New)
		return p.User
	}
	require.Equal(t, ann.User, again("github", "1", "ann@acme.example", "ann@home.example"), "by the account")
	require.Equal(t, before, s.head(t, ann.Home), "nothing is new")
	require.Equal(t, ann.User, again("gitea", "7", "ann@home.example"), "by an address, at another provider")
	s.requireAdded(t, ann.Home, before,
		events.UserEmailsVerified{User: ann.User, From: []string{"ann@acme.example", "ann@home.example"}, Emails: []string{"ann@home.example"}},
		events.UserAccountLinked{User: ann.User, Provider: "gitea", Account: "7", Login: "ann"},
		events.MemberProfileChanged{Member: s.memberOf(t, ann), User: ann.User, Email: "ann@home.example", Name: "ANN"})
	require.Equal(t, ann.User, again("github", "1", "ann@home.example", "bob@acme.example"), "the account comes before addresses")
	require.Equal(t, []string{"ann@home.example"}, s.emails(t, ann.User), "what another person holds stays theirs")

	_, err = s.signedIn(t, s.replica, "github", "3", "eve", "ann@home.example")
	require.ErrorIs(t, err, commands.ErrNotLinked, "by another account of the same provider")
	require.ErrorIs(t, err, aggregates.ErrOtherAccount)
}

// Unique keys are rows that can be changed by SQL. One that names a person who does not hold it according to the log, or
// another workspace than their own, signs nobody in.
func TestChangedKeysSignNobodyIn(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"an account":               `insert into global_keys values ('account/gitea/7', $1, $2)`,
		"an address":               `insert into global_keys values ('email/eve@acme.example', $1, $2)`,
		"a home":                   `update global_keys set workspace_id = gen_random_uuid() where ($1, $2) = (workspace_id, owner)`,
		"the home of a person":     `update users set workspace_id = gen_random_uuid() where (workspace_id, user_id) = ($1, $2)`,
		"a person who is not one":  `update global_keys set owner = gen_random_uuid() where ($1, $2) = (workspace_id, owner)`,
		"a person who was deleted": `delete from users where (workspace_id, user_id) = ($1, $2)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, account, address := newSystem(t), "1", "ann@acme.example"
			ann, err := s.signedIn(t, s.replica, "github", account, "ann", address)
			require.NoError(t, err)
			done, err := s.db.Exec(t.Context(), sql, ann.Home, ann.User)
			require.NoError(t, err)
			require.NotZero(t, done.RowsAffected())
			provider := "github"
			if strings.HasPrefix(sql, "insert") {
				provider, account, address = "gitea", "7", "eve@acme.example"
			}
			before := s.head(t, ann.Home)
			for _, r := range []replica{s.replica, s.other} {
				_, err = s.signedIn(t, r, provider, account, "eve", address)
				require.ErrorIs(t, err, fault.ErrUnavailable)
			}
			require.Equal(t, before, s.head(t, ann.Home))
		})
	}
}

// Ids of accounts are small numbers at many hosts. Somebody with another person's number at another
// host of the same kind is somebody else, and a person who keeps an address is the same.
func TestAccountIDsBelongToHost(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	signIn := func(host, account string, addresses ...string) commands.Person {
		t.Helper()
		p, err := s.SignIn(t.Context(), commands.SignIn{
			Meta:    commands.Meta{Envelope: events.Envelope{Origin: events.FromAuth, RequestID: "r-1"}},
			Account: events.UserAccountLinked{Provider: "gitea", Host: host, Account: account, Login: "ann"},
			Name:    "Ann", Emails: addresses,
		})
		require.NoError(t, err)
		return p
	}
	ann, early := signIn("https://old.example", "2", "ann@acme.example"), signIn("", "3", "cleo@acme.example")
	bob := signIn("https://new.example", "2", "bob@acme.example")
	require.True(t, bob.New)
	require.NotEqual(t, ann.User, bob.User)
	require.Equal(t, ann.User, signIn("https://new.example", "9", "ann@acme.example").User)
	require.Equal(t, ann.User, signIn("https://new.example", "9", "ann@home.example").User, "by the account, with another address")
	require.True(t, signIn("https://new.example", "3", "dan@acme.example").New, "nor is it an account of an unknown host")
	require.Equal(t, early.User, signIn("https://old.example", "3", "cleo@acme.example").User)
	list, err := projections.Accounts{DB: s.db}.ForUser(t.Context(), early.User)
	require.NoError(t, err)
	require.Len(t, list, 1, "the account whose host was not recorded is the same one")
	require.Equal(t, "gitea/https://old.example/3", list[0].Key)

	// An address that somebody gave up and a person took before their host was recorded.
	eve, fay, gus := signIn("", "4", "eve@acme.example"), signIn("", "5", "fay@acme.example"), signIn("", "6", "gus@acme.example")
	require.Equal(t, fay.User, signIn("https://old.example", "5", "eve@acme.example", "fay@acme.example").User)
	require.Equal(t, gus.User, signIn("https://old.example", "6", "bob@acme.example", "gus@acme.example").User,
		"the id tells who it is, though bob has no account at this host")
	require.Equal(t, []string{"eve@acme.example"}, s.emails(t, eve.User))

	// The same id at yet another host, and an address that the former owner of the id has as well.
	hal := signIn("", "7", "hal@acme.example", "team@acme.example")
	require.Equal(t, hal.User, signIn("https://old.example", "7", "hal@acme.example", "team@acme.example").User)
	ida := signIn("https://old.example", "8", "ida@acme.example")
	require.Equal(t, ida.User, signIn("https://third.example", "7", "ida@acme.example", "team@acme.example").User)
}

// Two accounts at one provider report the same address at the same moment. One of them is
// linked to the person, and the other to nobody.
func TestOneAccountOfAProviderIsLinked(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for i := range 15 {
		address := fmt.Sprintf("p%d@acme.example", i)
		c := newRegistration(fmt.Sprintf("p%d", i), address)
		c.Account = events.UserAccountLinked{}
		_, err := s.RegisterUser(t.Context(), c)
		require.NoError(t, err)
		account := func(n int) string { return fmt.Sprintf("%d-%d", i, n) }
		requireOne(t, race(func(n int) error {
			_, err := s.signedIn(t, []replica{s.replica, s.other}[n], "github", account(n), c.WorkspaceSlug, address)
			return err
		}), commands.ErrNotLinked)
		held := 0
		for n := range 2 {
			switch s.holder(t, events.AccountKey(events.UserAccountLinked{Provider: "github", Account: account(n)})) {
			case c.User:
				held++
			case events.ID{}:
			default:
				require.Fail(t, "somebody else has the account")
			}
		}
		require.Equal(t, 1, held)
	}
}

// memberOf returns somebody's membership of their personal workspace.
func (s *system) memberOf(t *testing.T, p commands.Person) events.ID {
	t.Helper()
	for _, r := range s.records(t, p.Home, 1) {
		if e, ok := r.Event.(events.MemberJoined); ok && e.User == p.User {
			return e.Member
		}
	}
	require.Fail(t, "they are none")
	return events.ID{}
}

func TestPersonalSlug(t *testing.T) {
	t.Parallel()
	for login, want := range map[string]string{
		"ada": "ada", "Ada-Lind": "ada-lind", "ada_lind": "ada-lind", "a.b": "a-b", "ada--lind": "ada-lind",
		"al": "al-home", "a": "a-home", "": "u-home", "-": "u-home", "-----": "u-home", "日本": "u-home", "é": "u-home",
		"7": "u-7", "42nd": "u-42nd", "-ada-": "ada", "zoë": "zo-home", "a b\n": "a-b", "İ": "u-home",
		strings.Repeat("x", 39):                 strings.Repeat("x", 34),
		strings.Repeat("x", 33) + "-yz":         strings.Repeat("x", 33),
		strings.Repeat("1", 39):                 "u-" + strings.Repeat("1", 32),
		"api":                                   "api",
		"019a9f3e-0000-7000-8000-0000000000001": "u-019a9f3e-0000-7000-8000-00000000",
		"a19a9f3e-0000-7000-8000-000000000000":  "a19a9f3e-0000-7000-8000-0000000000",
	} {
		require.Equal(t, want, commands.PersonalSlug(login, 0), "%q", login)
		for try := range 20 {
			slug := commands.PersonalSlug(login, try)
			if try > 10 { // a common login
				require.Regexp(t, "^"+want+`-\d{5}$`, slug)
			} else if try > 0 {
				require.Equal(t, fmt.Sprintf("%s-%d", want, try+1), slug)
			}
			var w aggregates.Workspace
			_, err := w.Create("A name", slug, events.MemberJoined{})
			require.NoError(t, err, "%q: %q", login, slug)
		}
	}
}

func FuzzPersonalSlug(f *testing.F) {
	f.Add("ada", 0)
	f.Add("-7", 19)
	f.Fuzz(func(t *testing.T, login string, try int) {
		var w aggregates.Workspace
		_, err := w.Create("A name", commands.PersonalSlug(login, (try%20+20)%20), events.MemberJoined{})
		require.NoError(t, err)
	})
}
