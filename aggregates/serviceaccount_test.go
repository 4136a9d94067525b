package aggregates

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

var (
	bot = id(42)

	first  = Token{Fingerprint: events.Fingerprint{1}, Tail: "aaaa"}
	second = Token{Fingerprint: events.Fingerprint{2}, Tail: "bbbb"}
	third  = Token{Fingerprint: events.Fingerprint{3}, Tail: "cccc"}

	both = []events.Scope{events.ReadAPI, events.SubmitJobs}

	created = events.ServiceAccountCreated{Account: bot, Name: "ci-bot", Scopes: both, Fingerprint: first.Fingerprint, Tail: first.Tail}
	rotated = events.ServiceAccountRotated{
		Account: bot, Name: "ci-bot", Scopes: both,
		From: first.Fingerprint, FromTail: first.Tail, Fingerprint: second.Fingerprint, Tail: second.Tail,
	}
	revoked = events.ServiceAccountRevoked{Account: bot, Name: "ci-bot", Fingerprint: first.Fingerprint, Tail: first.Tail, KeepsName: true}
)

func TestCreateServiceAccount(t *testing.T) {
	create := func(scopes ...events.Scope) func(*ServiceAccount) ([]events.Event, error) {
		return func(a *ServiceAccount) ([]events.Event, error) { return a.Create(bot, "ci-bot", scopes, first) }
	}
	with := func(scopes ...events.Scope) []events.Event {
		e := created
		e.Scopes = scopes
		return []events.Event{e}
	}
	unknown := fault.Field("scopes", "must be among api.read, farm.submit")
	check(t, []spec[ServiceAccount]{
		{name: "with both scopes", when: create(both...), then: with(both...)},
		{name: "with api.read", when: create(events.ReadAPI), then: with(events.ReadAPI)},
		{name: "with farm.submit", when: create(events.SubmitJobs), then: with(events.SubmitJobs)},
		{name: "scopes are a set", when: create(events.SubmitJobs, events.ReadAPI, events.SubmitJobs), then: with(both...)},
		{name: "not without a scope", when: create(), err: fault.Field("scopes", "must have at least one scope")},
		{name: "not with another scope", when: create(events.ReadAPI, "api.write"), err: unknown},
		{name: "not with an empty scope", when: create(""), err: unknown},
	})
}

func TestScopesOfTheCallerStayAsTheyAre(t *testing.T) {
	scopes := []events.Scope{events.SubmitJobs, events.ReadAPI}
	_, err := new(ServiceAccount).Create(bot, "ci-bot", scopes, first)
	require.NoError(t, err)
	require.Equal(t, []events.Scope{events.SubmitJobs, events.ReadAPI}, scopes)
}

func TestServiceAccountNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"bot":                   true,
		"b-1":                   true,
		"b--":                   true,
		strings.Repeat("b", 40): true,

		"":                      false,
		"bo":                    false,
		strings.Repeat("b", 41): false,
		"1bot":                  false,
		"-bot":                  false,
		"Bot":                   false,
		"my bot":                false,
		"my_bot":                false,
		"bót":                   false,
		"bot\n":                 false,
		"service:bot":           false,
	} {
		_, err := new(ServiceAccount).Create(bot, name, both, first)
		if ok {
			require.NoError(t, err, "%q", name)
			continue
		}
		want := fault.Field("name", "must have 3 to 40 lower-case letters, digits and hyphens, and start with a letter")
		require.Equal(t, want, err, "%q", name)
	}
}

func TestRotate(t *testing.T) {
	rotate := func(to Token) func(*ServiceAccount) ([]events.Event, error) {
		return func(a *ServiceAccount) ([]events.Event, error) { return a.Rotate(to) }
	}
	again := rotated
	again.From, again.FromTail, again.Fingerprint, again.Tail = second.Fingerprint, second.Tail, third.Fingerprint, third.Tail
	check(t, []spec[ServiceAccount]{
		{name: "another token takes the first one's place", given: []events.Event{created}, when: rotate(second), then: []events.Event{rotated}},
		{name: "and another that one's", given: []events.Event{created, rotated}, when: rotate(third), then: []events.Event{again}},
		{name: "not once it is revoked", given: []events.Event{created, revoked}, when: rotate(second), err: ErrServiceAccountRevoked},
		{name: "there must be such an account", when: rotate(second), err: ErrNoServiceAccount},
	})
}

func TestRevoke(t *testing.T) {
	revoke := (*ServiceAccount).Revoke
	current := revoked
	current.Fingerprint, current.Tail = second.Fingerprint, second.Tail
	check(t, []spec[ServiceAccount]{
		{name: "its token stops working", given: []events.Event{created}, when: revoke, then: []events.Event{revoked}},
		{name: "the token is the one it has now", given: []events.Event{created, rotated}, when: revoke, then: []events.Event{current}},
		{name: "only once", given: []events.Event{created, revoked}, when: revoke, err: ErrServiceAccountRevoked},
		{name: "there must be such an account", when: revoke, err: ErrNoServiceAccount},
	})
}

func TestStaleTokenIsNotedOnceAnHour(t *testing.T) {
	used := func(at time.Time) events.ServiceAccountStaleTokenUsed {
		return events.ServiceAccountStaleTokenUsed{Account: bot, Name: "ci-bot", Tail: first.Tail, UsedAt: at}
	}
	note := func(at time.Time) func(*ServiceAccount) ([]events.Event, error) {
		return func(a *ServiceAccount) ([]events.Event, error) { return a.NoteStaleToken(first.Tail, at) }
	}
	before := []events.Event{created, rotated, used(noon)}
	elsewhere := time.FixedZone("", 2*60*60)
	check(t, []spec[ServiceAccount]{
		{name: "the first use is", given: []events.Event{created, rotated}, when: note(noon), then: []events.Event{used(noon)}},
		{name: "of a revoked one too", given: []events.Event{created, revoked}, when: note(noon), then: []events.Event{used(noon)}},
		{name: "a use at the same moment is not", given: before, when: note(noon)},
		{name: "a use within the hour is not", given: before, when: note(noon.Add(time.Hour - time.Nanosecond))},
		{name: "a use an hour later is", given: before, when: note(noon.Add(time.Hour)), then: []events.Event{used(noon.Add(time.Hour))}},
		{name: "a use that a slow clock puts earlier is not", given: before, when: note(noon.Add(-time.Minute))},
		{name: "its time is UTC, in microseconds", given: []events.Event{created}, when: note(noon.Add(1999 * time.Nanosecond).In(elsewhere)),
			then: []events.Event{used(noon.Add(time.Microsecond))}},
		{name: "there must be such an account", when: note(noon)},
	})
}

func TestRefusalsOfAServiceAccount(t *testing.T) {
	for _, c := range []struct {
		fault  *fault.Fault
		status int
		code   string
	}{
		{ErrNoServiceAccount, 404, "service_account_not_found"},
		{ErrServiceAccountRevoked, 409, "service_account_revoked"},
		{ErrServiceAccountNameUsed, 409, "service_account_name_taken"},
	} {
		require.Equal(t, c.status, c.fault.Kind.Status(), c.code)
		require.Equal(t, c.code, c.fault.Code)
	}
}
