package farm

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

var (
	invitation1 = id(52)
	mintedEvent = events.EnrollmentMinted{
		Enrollment: invitation1, Name: "builder-1", Labels: []string{"gpu=a100", "pool=default"}, ExclusiveLabels: []string{"gpu=a100"},
		CapacityLimit: 4, ExpiresAt: noon.Add(15 * time.Minute), Fingerprint: events.Fingerprint{7}, Tail: "Qm4Z",
	}
	usedEvent = events.EnrollmentUsed{Enrollment: invitation1, Name: "builder-1", Runner: builder, Key: events.KeyHash{1}}
	box       = Machine{Name: "elsewhere", Key: events.KeyHash{1},
		Hello: Hello{Labels: []string{"disk=ssd", "gpu=fake"}, Capacity: 8, Agent: linux}}
)

func TestMintAnEnrollment(t *testing.T) {
	mint := func(change func(*events.EnrollmentMinted)) func(*Enrollment) ([]events.Event, error) {
		e := mintedEvent
		e.Labels, e.ExclusiveLabels = []string{"pool=default"}, []string{"gpu=a100"}
		change(&e)
		return func(n *Enrollment) ([]events.Event, error) { return n.Mint(e, noon) }
	}
	refused := func(name, field, text string, change func(*events.EnrollmentMinted)) spec[Enrollment] {
		return spec[Enrollment]{name: name, when: mint(change), err: fault.Field(field, "%s", text)}
	}
	many := strings.Split(strings.Repeat("a=b ", 33), " ")[:33]
	check(t, []spec[Enrollment]{
		{name: "exclusive labels are labels", when: mint(func(*events.EnrollmentMinted) {}), then: []events.Event{mintedEvent}},
		refused("a name that is none", "name", "must have 1 to 63 lower-case letters, digits, dots and hyphens, and start with a letter or digit",
			func(e *events.EnrollmentMinted) { e.Name = "Builder 1" }),
		refused("a label that is none", "labels", "must be key=value, such as pool=default",
			func(e *events.EnrollmentMinted) { e.Labels = []string{"default"} }),
		refused("a label of the service", "exclusiveLabels", "must not begin with os=, arch=, runner=, sandbox=: the service sets these",
			func(e *events.EnrollmentMinted) { e.ExclusiveLabels = []string{"runner=x"} }),
		refused("too many labels", "labels", "must have 32 items or fewer", func(e *events.EnrollmentMinted) { e.Labels = many }),
		refused("no slot", "capacityLimit", "must be from 1 to 64", func(e *events.EnrollmentMinted) { e.CapacityLimit = 0 }),
		refused("too many slots", "capacityLimit", "must be from 1 to 64", func(e *events.EnrollmentMinted) { e.CapacityLimit = 65 }),
		refused("too long", "ttlSeconds", "must be from 60 to 3600 for one machine",
			func(e *events.EnrollmentMinted) { e.ExpiresAt = noon.Add(time.Hour + 1) }),
		refused("too short", "ttlSeconds", "must be from 60 to 3600 for one machine",
			func(e *events.EnrollmentMinted) { e.ExpiresAt = noon.Add(59 * time.Second) }),
		{name: "for one machine", when: mint(func(e *events.EnrollmentMinted) { e.Uses = 1 }), then: []events.Event{mintedEvent}},
		{name: "for several", when: mint(func(e *events.EnrollmentMinted) {
			e.Uses, e.Name, e.ExpiresAt = 1000, "", noon.Add(maxReusableLifetime)
		}), then: []events.Event{forMany(1000, noon.Add(maxReusableLifetime))}},
		refused("for too many", "uses", "must be from 1 to 1000", func(e *events.EnrollmentMinted) { e.Uses = 1001 }),
		refused("for fewer than one", "uses", "must be from 1 to 1000", func(e *events.EnrollmentMinted) { e.Uses = -1 }),
		refused("a name of several", "name", "must be empty for several machines, which name themselves",
			func(e *events.EnrollmentMinted) { e.Uses = 2 }),
		refused("several, too long", "ttlSeconds", "must be from 60 to 7776000 for several machines",
			func(e *events.EnrollmentMinted) { e.Uses, e.Name, e.ExpiresAt = 2, "", noon.Add(maxReusableLifetime+1) }),
	})
}

// forMany returns the event of an enrollment of several machines.
func forMany(uses int, until time.Time) events.EnrollmentMinted {
	e := mintedEvent
	e.Uses, e.Name, e.ExpiresAt = uses, "", until
	return e
}

// As many keys as the enrollment is for use it, each once, until it expires or is withdrawn.
func TestUseAnEnrollmentOfSeveral(t *testing.T) {
	minted := forMany(3, noon.AddDate(0, 0, 30))
	list := []events.Event{minted}
	use := func(key byte, at time.Time) (own []events.Event, err error) {
		m := box
		m.Key = events.KeyHash{key}
		n := folded[Enrollment](list)
		own, its, err := n.Use(mintedEvent.Fingerprint, id(key), m, enrolled.Certificate, at)
		require.Equal(t, folded[Enrollment](list), n, "to decide must change nothing")
		if len(its) > 0 {
			require.Equal(t, invitation1, its[0].(events.RunnerEnrolled).Enrollment)
			require.True(t, its[0].(events.RunnerEnrolled).SelfNamed)
		}
		return own, err
	}
	for key := byte(1); key <= 3; key++ {
		for range 2 { // the second time, an answer is lost
			own, err := use(key, noon.AddDate(0, 0, 29))
			require.NoError(t, err)
			list = append(list, own...)
			require.Len(t, list, int(key)+1)
			require.Equal(t, id(key), folded[Enrollment](list).Runner(events.KeyHash{key}))
		}
	}
	own, err := use(4, noon)
	require.Equal(t, ErrEnrollmentUsed, err)
	require.IsType(t, events.EnrollmentRefused{}, own[0])
	_, err = folded[Enrollment](list).Withdraw()
	require.Equal(t, ErrEnrollmentDone, err)

	list = list[:3]
	own, err = use(4, minted.ExpiresAt)
	require.Equal(t, ErrEnrollmentInvalid, err)
	require.IsType(t, events.EnrollmentExpired{}, own[0], "one use was left")
	withdrawn, err := folded[Enrollment](list).Withdraw()
	require.NoError(t, err)
	list = append(list, withdrawn...)
	for key := byte(1); key <= 4; key++ {
		own, err = use(key, noon)
		require.Equal(t, ErrEnrollmentInvalid, err, "also a machine that used it")
		require.Empty(t, own)
	}
}

func TestUseAnEnrollment(t *testing.T) {
	certificate := enrolled.Certificate
	runner := enrolled
	runner.Labels = []string{"arch=amd64", "gpu=a100", "machine:disk=ssd", "machine:gpu=fake", "os=linux", "pool=default",
		"runner=builder-1", "sandbox=bubblewrap", "sandbox=none"}
	runner.MintedLabels, runner.ExclusiveLabels, runner.Capacity = mintedEvent.Labels, mintedEvent.ExclusiveLabels, 4
	another := box
	another.Key = events.KeyHash{2}
	expired := events.EnrollmentExpired{Enrollment: invitation1, Name: "builder-1", ExpiredAt: mintedEvent.ExpiresAt}
	refused := events.EnrollmentRefused{Enrollment: invitation1, Name: "builder-1", Key: another.Key, Reason: "enrollment_used"}
	late := 15 * time.Minute
	for name, c := range map[string]struct {
		given    []events.Event
		machine  Machine
		after    time.Duration
		own, its []events.Event
		err      error
	}{
		"the first machine":  {[]events.Event{mintedEvent}, box, 0, []events.Event{usedEvent}, []events.Event{runner}, nil},
		"the same key again": {[]events.Event{mintedEvent, usedEvent}, box, time.Minute, nil, nil, nil},
		"another key":        {[]events.Event{mintedEvent, usedEvent}, another, 0, []events.Event{refused}, nil, ErrEnrollmentUsed},
		"another key, too often": {after([]events.Event{mintedEvent, usedEvent}, repeated(refused, 10)...), another, 0, nil, nil,
			ErrEnrollmentUsed},
		"no token":                   {nil, box, 0, nil, nil, ErrEnrollmentInvalid},
		"withdrawn":                  {[]events.Event{mintedEvent, events.EnrollmentWithdrawn{}}, box, 0, nil, nil, ErrEnrollmentInvalid},
		"too late":                   {[]events.Event{mintedEvent}, box, late, []events.Event{expired}, nil, ErrEnrollmentInvalid},
		"too late again":             {[]events.Event{mintedEvent, expired}, box, late, nil, nil, ErrEnrollmentInvalid},
		"the same key, too late":     {[]events.Event{mintedEvent, usedEvent}, box, late, nil, nil, ErrEnrollmentInvalid},
		"a moment before it is over": {[]events.Event{mintedEvent}, box, late - 1, []events.Event{usedEvent}, []events.Event{runner}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := folded[Enrollment](c.given)
			own, its, err := n.Use(mintedEvent.Fingerprint, builder, c.machine, certificate, noon.Add(c.after))
			require.Equal(t, c.err, err)
			require.Equal(t, c.own, own)
			require.Equal(t, c.its, its)
			require.Equal(t, folded[Enrollment](c.given), n, "to decide must change nothing")
			own, its, err = n.Use(events.Fingerprint{9}, builder, c.machine, certificate, noon.Add(c.after))
			require.Equal(t, ErrEnrollmentInvalid, err, "by another token")
			require.Empty(t, append(own, its...))
		})
	}
}

func repeated(e events.Event, n int) (list []events.Event) {
	for range n {
		list = append(list, e)
	}
	return list
}

func TestMachineMayNameItself(t *testing.T) {
	e := mintedEvent
	e.Name = ""
	n := folded[Enrollment]([]events.Event{e})
	m := box
	m.Name = "Rack-7.Example"
	own, its, err := n.Use(mintedEvent.Fingerprint, builder, m, enrolled.Certificate, noon)
	require.NoError(t, err)
	require.Equal(t, "rack-7.example", own[0].(events.EnrollmentUsed).Name)
	labels := its[0].(events.RunnerEnrolled).Labels
	require.Contains(t, labels, "machine:runner=rack-7.example")
	require.NotContains(t, labels, "runner=rack-7.example", "jobs that require a name mean one that a person gave")
	for _, name := range []string{"", "a b", "tok_enr_0123456789abcdefghijklmnopqrstuv000000", strings.Repeat("a", 64)} {
		m.Name = name
		own, its, err := n.Use(mintedEvent.Fingerprint, builder, m, enrolled.Certificate, noon)
		require.ErrorIs(t, err, fault.ErrValidation, name)
		require.Empty(t, own)
		require.Empty(t, its)
	}
}

func TestWithdrawAnEnrollment(t *testing.T) {
	withdraw := func(n *Enrollment) ([]events.Event, error) { return n.Withdraw() }
	withdrawn := events.EnrollmentWithdrawn{Enrollment: invitation1, Name: "builder-1", Tail: "Qm4Z"}
	check(t, []spec[Enrollment]{
		{name: "one that waits", given: []events.Event{mintedEvent}, when: withdraw, then: []events.Event{withdrawn}},
		{name: "twice", given: []events.Event{mintedEvent, withdrawn}, when: withdraw},
		{name: "one that was used", given: []events.Event{mintedEvent, usedEvent}, when: withdraw, err: ErrEnrollmentDone},
		{name: "none", when: withdraw, err: ErrNoEnrollment},
	})
}

func TestAuthorities(t *testing.T) {
	first := events.AuthorityCreated{Authority: id(53), Certificate: "PEM"}
	second := events.AuthorityCreated{Authority: id(54), Certificate: "PEM"}
	gone := events.AuthorityRetired{Authority: id(53), Reason: "lost"}
	create := func(e events.AuthorityCreated) func(*Authority) ([]events.Event, error) {
		return func(a *Authority) ([]events.Event, error) { return a.Create(e) }
	}
	retire := func(a *Authority) ([]events.Event, error) { return a.Retire(id(53), "lost") }
	check(t, []spec[Authority]{
		{name: "the first", when: create(first), then: []events.Event{first}},
		{name: "the same again", given: []events.Event{first}, when: create(first)},
		{name: "another one beside it", given: []events.Event{first}, when: create(second), then: []events.Event{second}},
		{name: "retire", given: []events.Event{first}, when: retire, then: []events.Event{gone}},
		{name: "retire twice", given: []events.Event{first, gone}, when: retire, err: ErrNoAuthority},
	})
	require.Equal(t, id(54), folded[Authority]([]events.Event{first, second}).Current())
	require.Zero(t, folded[Authority]([]events.Event{first, gone}).Current())
}

func TestAgentWithoutSandboxesIsStoredWithEmptyList(t *testing.T) {
	bare := box
	bare.Hello.Agent.Sandboxes = nil
	var n Enrollment
	n.Apply(mintedEvent, events.Actor{ID: invitation1})
	_, its, err := n.Use(mintedEvent.Fingerprint, builder, bare, enrolled.Certificate, noon)
	require.NoError(t, err)
	var r Runner
	r.Apply(enrolled, events.Actor{ID: builder})
	list, err := r.Connect(bare.Hello, false)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, e := range append(its, list...) {
		text, err := json.Marshal(e)
		require.NoError(t, err)
		require.Contains(t, string(text), `"sandboxes":[]`, e.Kind())
	}
}
