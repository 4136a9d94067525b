package aggregates

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

var zoe = events.UserRegistered{User: id(1), Name: "Zoë Brandt", Emails: []string{"zoe@acme.example", "zoe@mail.example"}}

func linked(account string) events.UserAccountLinked {
	return events.UserAccountLinked{User: id(1), Provider: "github", Account: account, Login: "zoe"}
}

func TestVerify(t *testing.T) {
	verify := func(emails ...string) func(*User) ([]events.Event, error) {
		return func(u *User) ([]events.Event, error) { return u.Verify(id(1), emails) }
	}
	verified := func(from, to []string) events.UserEmailsVerified {
		return events.UserEmailsVerified{User: id(1), From: from, Emails: to}
	}
	moved := verified(zoe.Emails, []string{"zoe@new.example"})
	check(t, []spec[User]{
		{name: "other addresses take the place of the old ones", given: []events.Event{zoe}, when: verify("zoe@new.example"),
			then: []events.Event{moved}},
		{name: "another one is the primary one", given: []events.Event{zoe}, when: verify("zoe@mail.example", "zoe@acme.example"),
			then: []events.Event{verified(zoe.Emails, []string{"zoe@mail.example", "zoe@acme.example"})}},
		{name: "what was before is the last ones", given: []events.Event{zoe, moved}, when: verify("zoe@acme.example"),
			then: []events.Event{verified(moved.Emails, []string{"zoe@acme.example"})}},
		{name: "the same change nothing", given: []events.Event{zoe}, when: verify(zoe.Emails...)},
		{name: "nobody is left without any", given: []events.Event{zoe}, when: verify()},
		{name: "there must be such a person", when: verify("zoe@new.example"), err: ErrNoUser},
		{name: "no text that is no address", given: []events.Event{zoe}, when: verify("zoë@new.example"), err: errEmails},
		{name: "nor an address in another form", given: []events.Event{zoe}, when: verify("zoe@acme.example", "Zoe@new.example"), err: errEmails},
		{name: "nor none", given: []events.Event{zoe}, when: verify(""), err: errEmails},
	})
	require.Equal(t, zoe.Emails, folded[User]([]events.Event{zoe}).Emails())
	require.Equal(t, moved.Emails, folded[User]([]events.Event{zoe, moved}).Emails())
}

var errEmails = fault.Field("emails", "must be e-mail addresses")

func TestRegisterByAddresses(t *testing.T) {
	register := func(emails ...string) func(*User) ([]events.Event, error) {
		e := zoe
		e.Emails = emails
		return func(u *User) ([]events.Event, error) { return u.Register(e) }
	}
	early := zoe
	early.Emails = []string{"zoë@acme.example"}
	check(t, []spec[User]{
		{name: "a person becomes known", when: register(zoe.Emails...), then: []events.Event{zoe}},
		{name: "once", given: []events.Event{zoe}, when: register("zoe@new.example")},
		{name: "not by what is no address", when: register("zoe@acme.example", "zoë@acme.example"), err: errEmails},
		{name: "nor by one in another form", when: register("zoe@Acme.example"), err: errEmails},
		{
			name: "one of an earlier form gives way", given: []events.Event{early},
			when: func(u *User) ([]events.Event, error) { return u.Verify(id(1), []string{"zoe@acme.example"}) },
			then: []events.Event{events.UserEmailsVerified{User: id(1), From: early.Emails, Emails: []string{"zoe@acme.example"}}},
		},
	})
}

func TestLink(t *testing.T) {
	link := func(e events.UserAccountLinked) func(*User) ([]events.Event, error) {
		return func(u *User) ([]events.Event, error) { return u.Link(e) }
	}
	renamed, elsewhere := linked("7"), linked("7")
	renamed.Login, elsewhere.Provider = "zoe-brandt", "gitea"
	check(t, []spec[User]{
		{name: "an account is added", given: []events.Event{zoe}, when: link(linked("7")), then: []events.Event{linked("7")}},
		{name: "and another", given: []events.Event{zoe, linked("7")}, when: link(linked("8")), then: []events.Event{linked("8")}},
		{name: "the same number elsewhere is another", given: []events.Event{zoe, linked("7")}, when: link(elsewhere),
			then: []events.Event{elsewhere}},
		{name: "not twice", given: []events.Event{zoe, linked("7")}, when: link(linked("7"))},
		{name: "another login is no other account", given: []events.Event{zoe, linked("7")}, when: link(renamed)},
		{name: "there must be such a person", when: link(linked("7")), err: ErrNoUser},
	})
}

func TestSignInByAnAccount(t *testing.T) {
	elsewhere, longer := linked("8"), linked("8")
	elsewhere.Provider, longer.Provider = "gitea", "github2"
	hosted := func(host, account string) events.UserAccountLinked {
		e := linked(account)
		e.Host = host
		return e
	}
	old := linked("8") // from when a second account could be linked
	for name, c := range map[string]struct {
		given []events.Event
		by    events.UserAccountLinked
		want  error
	}{
		"by the first one":                          {[]events.Event{zoe}, linked("7"), nil},
		"by the one that is known":                  {[]events.Event{zoe, linked("7")}, linked("7"), nil},
		"by either of two":                          {[]events.Event{zoe, linked("7"), old}, linked("7"), nil},
		"by one of another provider":                {[]events.Event{zoe, linked("7")}, elsewhere, nil},
		"whose name may begin alike":                {[]events.Event{zoe, linked("7")}, longer, nil},
		"not by another one of the same provider":   {[]events.Event{zoe, linked("7")}, linked("8"), ErrOtherAccount},
		"nor as somebody who was never here before": {nil, linked("7"), ErrNoUser},
		"by one of another host":                    {[]events.Event{zoe, hosted("a", "7")}, hosted("b", "8"), nil},
		"not by another one of the same host":       {[]events.Event{zoe, hosted("a", "7")}, hosted("a", "8"), ErrOtherAccount},
		"by the one whose host was not recorded":    {[]events.Event{zoe, linked("7")}, hosted("a", "7"), nil},
		"not by another one of perhaps that host":   {[]events.Event{zoe, linked("7")}, hosted("a", "8"), ErrOtherAccount},
		"by one of another host than that one":      {[]events.Event{zoe, linked("7"), hosted("a", "7")}, hosted("b", "8"), nil},
	} {
		require.Equal(t, c.want, folded[User](c.given).SignIn(c.by), name)
	}
	require.Equal(t, zoe.Name, folded[User]([]events.Event{zoe}).Name())
}

func TestRecordOfAUser(t *testing.T) {
	in := events.UserSignedIn{User: id(1), Email: "zoe@acme.example", Session: id(60), Method: "github"}
	record := func(u *User) ([]events.Event, error) { return u.Record(in) }
	check(t, []spec[User]{
		{name: "every sign-in", given: []events.Event{zoe, in}, when: record, then: []events.Event{in}},
		{name: "there must be such a person", when: record, err: ErrNoUser},
	})
}
