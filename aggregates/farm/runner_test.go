package farm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

var (
	builder  = id(51)
	enrolled = events.RunnerEnrolled{
		Runner: builder, Name: "builder-1", Enrollment: id(52),
		Labels:       []string{"arch=amd64", "os=linux", "pool=default", "runner=builder-1", "sandbox=bubblewrap", "sandbox=none"},
		MintedLabels: []string{"pool=default"}, ExclusiveLabels: []string{}, Capacity: 2, CapacityLimit: 4, Agent: linux,
		Certificate: events.Certificate{Authority: id(53), Serial: "a1", Key: events.KeyHash{1}, NotBefore: noon,
			NotAfter: noon.AddDate(0, 0, 7)},
	}
	linux  = events.Agent{Version: "0.4.0", OS: "linux", Arch: "amd64", Sandboxes: []string{"none", "bubblewrap"}}
	online = events.RunnerOnline{Runner: builder, Name: "builder-1", Labels: enrolled.Labels, Capacity: 2, Agent: linux}

	wentOffline = events.RunnerOffline{Runner: builder, Name: "builder-1", Reason: events.OfflineDisconnected}
	drained     = events.RunnerDrainRequested{Runner: builder, Name: "builder-1", Note: "new disk"}
	noted       = events.RunnerDrainRequested{
		Runner: builder, Name: "builder-1", Note: "new kernel", Again: true, FromNote: "new disk",
	}
	resumed = events.RunnerDrainEnded{Runner: builder, Name: "builder-1"}
	ended   = events.RunnerRevoked{Runner: builder, Name: "builder-1"}
	retired = events.RunnerRetired{Runner: builder, Name: "builder-1"}
)

func ephemeral() events.RunnerEnrolled {
	e := enrolled
	e.Jobs = 1
	return e
}

func TestStatesOfARunner(t *testing.T) {
	for name, c := range map[string]struct {
		given []events.Event
		want  events.RunnerState
		takes error
	}{
		"none":                    {nil, "", ErrNoRunner},
		"events without a runner": {[]events.Event{online, drained}, "", ErrNoRunner},
		"enrolled":                {[]events.Event{enrolled}, events.RunnerStateEnrolled, ErrRunnerOffline},
		"online":                  {[]events.Event{enrolled, online}, events.RunnerStateOnline, nil},
		"offline":                 {[]events.Event{enrolled, online, wentOffline}, events.RunnerStateOffline, ErrRunnerOffline},
		"draining":                {[]events.Event{enrolled, online, drained}, events.RunnerStateDraining, ErrRunnerDraining},
		"drained, then gone":      {[]events.Event{enrolled, online, drained, wentOffline}, events.RunnerStateOffline, ErrRunnerDraining},
		"back, and still drained": {[]events.Event{enrolled, drained, online}, events.RunnerStateDraining, ErrRunnerDraining},
		"resumed":                 {[]events.Event{enrolled, online, drained, resumed}, events.RunnerStateOnline, nil},
		"revoked":                 {[]events.Event{enrolled, online, ended}, events.RunnerStateRevoked, ErrRunnerOver},
		"revoked while draining":  {[]events.Event{enrolled, online, drained, ended}, events.RunnerStateRevoked, ErrRunnerOver},
		"retired":                 {[]events.Event{ephemeral(), online, retired}, events.RunnerStateRetired, ErrRunnerOver},
	} {
		t.Run(name, func(t *testing.T) {
			r := folded[Runner](c.given)
			require.Equal(t, c.want, r.State())
			require.Equal(t, c.takes, r.MayTake())
		})
	}
}

func TestConnectRunner(t *testing.T) {
	hello := func(change func(*Hello)) func(*Runner) ([]events.Event, error) {
		h := Hello{Labels: nil, Capacity: 2, Agent: linux}
		change(&h)
		return func(r *Runner) ([]events.Event, error) { return r.Connect(h, false) }
	}
	same := func(*Hello) {}
	with := func(change func(*events.RunnerOnline)) []events.Event {
		e := online
		change(&e)
		return []events.Event{e}
	}
	quietly := func(r *Runner) ([]events.Event, error) { return r.Connect(Hello{Capacity: 1, Agent: linux}, true) }
	newer := linux
	newer.Version = "0.5.0"
	check(t, []spec[Runner]{
		{name: "there is no such runner", when: hello(same), err: ErrNoRunner},
		{name: "for the first time", given: []events.Event{enrolled}, when: hello(same), then: []events.Event{online}},
		{name: "that it is there is known", given: []events.Event{enrolled, online}, when: hello(same)},
		{name: "that it has changed is not said", given: []events.Event{enrolled, online}, when: quietly},
		{name: "that it is there is", given: []events.Event{enrolled, online, wentOffline}, when: quietly,
			then: with(func(e *events.RunnerOnline) { e.Capacity = 1 })},
		{name: "again after it was gone", given: []events.Event{enrolled, online, wentOffline}, when: hello(same), then: []events.Event{online}},
		{name: "with another version", given: []events.Event{enrolled, online}, when: hello(func(h *Hello) { h.Agent = newer }),
			then: with(func(e *events.RunnerOnline) { e.Agent = newer })},
		{name: "with more slots than it may", given: []events.Event{enrolled, online}, when: hello(func(h *Hello) { h.Capacity = 64 }),
			then: with(func(e *events.RunnerOnline) { e.Capacity = 4 })},
		{name: "with no slot it has one", given: []events.Event{enrolled, online}, when: hello(func(h *Hello) { h.Capacity = 0 }),
			then: with(func(e *events.RunnerOnline) { e.Capacity = 1 })},
		{name: "labels of its own add", given: []events.Event{enrolled, online}, when: hello(func(h *Hello) { h.Labels = []string{"disk=ssd"} }),
			then: with(func(e *events.RunnerOnline) {
				e.Labels = append([]string{"arch=amd64", "machine:disk=ssd"}, enrolled.Labels[1:]...)
			})},
		{name: "a label that a person could give is not theirs", given: []events.Event{enrolled, online},
			when: hello(func(h *Hello) { h.Labels = []string{"pool=secret", "gpu=a100"} }),
			then: with(func(e *events.RunnerOnline) {
				e.Labels = append([]string{"arch=amd64", "machine:gpu=a100", "machine:pool=secret"}, enrolled.Labels[1:]...)
			})},
		{name: "its own namespace it cannot spell", given: []events.Event{enrolled},
			when: hello(func(h *Hello) { h.Labels = []string{"machine:pool=secret"} }),
			err:  fault.Field("labels", "must be key=value, such as pool=default")},
		{name: "what the service sets it cannot claim", given: []events.Event{enrolled},
			when: hello(func(h *Hello) { h.Labels = []string{"os=plan9"} }),
			err:  fault.Field("labels", "must not begin with os=, arch=, runner=, sandbox=: the service sets these")},
		{name: "too many slots", given: []events.Event{enrolled}, when: hello(func(h *Hello) { h.Capacity = 65 }),
			err: fault.Field("capacity", "must be 64 or less")},
		{name: "a version that is none", given: []events.Event{enrolled}, when: hello(func(h *Hello) { h.Agent.Version = "a b" }),
			err: fault.Field("agent.version", "must have 1 to 63 letters, digits, dots, hyphens, underscores and plus signs")},
		{name: "not a revoked one", given: []events.Event{enrolled, ended}, when: hello(same), err: ErrRunnerOver},
	})
}

func TestDisconnectDrainResumeRevoke(t *testing.T) {
	drain := func(r *Runner) ([]events.Event, error) { return r.Drain("new disk") }
	resume := func(r *Runner) ([]events.Event, error) { return r.Resume() }
	revoke := func(r *Runner) ([]events.Event, error) { return r.Revoke("") }
	leave := func(r *Runner) ([]events.Event, error) { return r.Disconnect(events.OfflineDisconnected) }
	is := []events.Event{enrolled, online}
	check(t, []spec[Runner]{
		{name: "disconnect", given: is, when: leave, then: []events.Event{wentOffline}},
		{name: "disconnect what is not there", given: []events.Event{enrolled}, when: leave},
		{name: "disconnect twice", given: after(is, wentOffline), when: leave},
		{name: "drain", given: is, when: drain, then: []events.Event{drained}},
		{name: "drain one that is offline", given: []events.Event{enrolled}, when: drain, then: []events.Event{drained}},
		{name: "drain twice", given: after(is, drained), when: drain},
		{name: "drain without a note after one", given: after(is, drained),
			when: func(r *Runner) ([]events.Event, error) { return r.Drain(" ") }},
		{name: "drain for another reason", given: after(is, drained),
			when: func(r *Runner) ([]events.Event, error) { return r.Drain("new\u202e kernel\x1b\n") }, then: []events.Event{noted}},
		{name: "drain twice for that reason", given: after(is, drained, noted),
			when: func(r *Runner) ([]events.Event, error) { return r.Drain("new kernel") }},
		{name: "drain after a resume", given: after(is, drained, noted, resumed), when: drain, then: []events.Event{drained}},
		{name: "drain nothing", when: drain, err: ErrNoRunner},
		{name: "drain a revoked one", given: after(is, ended), when: drain, err: ErrRunnerOver},
		{name: "drain with a long note", given: is, when: func(r *Runner) ([]events.Event, error) { return r.Drain(strings.Repeat("é", 501)) },
			err: fault.Field("note", "must have 500 characters or fewer, and no NUL")},
		{name: "drain with a token for a note", given: is, when: func(r *Runner) ([]events.Event, error) {
			return r.Drain("tok_enr_0123456789ABCDEFGHIJKLMNOPQRSTUV000000")
		}, err: fault.Field("note", "must not hold a service token")},
		{name: "drain with a token in disguise for a note", given: is, when: func(r *Runner) ([]events.Event, error) {
			return r.Drain("tok_enr_0123456789\u200bABCDEFGHIJKLMNOPQRSTUV000000")
		}, err: fault.Field("note", "must not hold a service token")},
		{name: "revoke with a note", given: is, when: func(r *Runner) ([]events.Event, error) { return r.Revoke("sold\u202e") },
			then: []events.Event{events.RunnerRevoked{Runner: builder, Name: "builder-1", Note: "sold"}}},
		{name: "resume", given: after(is, drained), when: resume, then: []events.Event{resumed}},
		{name: "resume what takes jobs", given: is, when: resume},
		{name: "resume nothing", when: resume, err: ErrNoRunner},
		{name: "revoke", given: is, when: revoke, then: []events.Event{ended}},
		{name: "revoke a suspended one", given: after(is, events.RunnerSuspended{}), when: revoke, then: []events.Event{ended}},
		{name: "revoke twice", given: after(is, ended), when: revoke},
		{name: "revoke nothing", when: revoke, err: ErrNoRunner},
	})
}

func TestEphemeralRunnerTakesOneJob(t *testing.T) {
	job := id(60)
	take := func(j events.ID) func(*Runner) ([]events.Event, error) {
		return func(r *Runner) ([]events.Event, error) { return r.Take(j) }
	}
	retire := func(r *Runner) ([]events.Event, error) { return r.Retire() }
	taken := events.RunnerJobTaken{Runner: builder, Name: "builder-1", Job: job, Left: 0}
	once := []events.Event{ephemeral(), online}
	giveBack := func(r *Runner) ([]events.Event, error) { return r.Return(job) }
	returned := events.RunnerJobReturned{Runner: builder, Name: "builder-1", Job: job, Left: 1}
	check(t, []spec[Runner]{
		{name: "the first", given: once, when: take(job), then: []events.Event{taken}},
		{name: "not another one", given: after(once, taken), when: take(id(61)), err: ErrRunnerSpent},
		{name: "retires when it is done", given: after(once, taken), when: retire, then: []events.Event{retired}},
		{name: "does not retire before", given: once, when: retire},
		{name: "one for many jobs never does", given: []events.Event{enrolled, online}, when: retire},
		{name: "and leaves no trace of each", given: []events.Event{enrolled, online}, when: take(job)},
		{name: "gives it back", given: after(once, taken), when: giveBack, then: []events.Event{returned}},
		{name: "gives back what it has given back", given: after(once, taken, returned), when: giveBack},
		{name: "another one then", given: after(once, taken, returned), when: take(id(61)), then: []events.Event{
			events.RunnerJobTaken{Runner: builder, Name: "builder-1", Job: id(61), Left: 0}}},
		{name: "does not retire when it gave back", given: after(once, taken, returned), when: retire},
		{name: "gives nothing back when over", given: after(once, taken, retired), when: giveBack},
		{name: "gives nothing back that does not count", given: []events.Event{enrolled, online}, when: giveBack},
		{name: "not while it is drained", given: after(once, drained), when: take(job), err: ErrRunnerDraining},
	})
}

// What the machines of earlier versions said of themselves stands in their events like what people gave.
func TestLabelsOfEarlierEventsAreTheMachines(t *testing.T) {
	was, later := enrolled, online
	was.Labels = append([]string{"pool=prod"}, enrolled.Labels...)
	later.Labels = append([]string{"gpu=a100"}, was.Labels...)
	r := folded[Runner]([]events.Event{was})
	require.Equal(t, append([]string{"arch=amd64", "machine:pool=prod"}, enrolled.Labels[1:]...), r.Labels())
	r = folded[Runner]([]events.Event{was, later})
	require.Equal(t, append([]string{"arch=amd64", "machine:gpu=a100", "machine:pool=prod"}, enrolled.Labels[1:]...), r.Labels())
	r.labels = later.Labels // as in a snapshot of those versions
	snapshot, err := r.Snapshot()
	require.NoError(t, err)
	require.NoError(t, r.Restore(snapshot))
	require.NotContains(t, r.Labels(), "pool=prod")
	require.Contains(t, r.Labels(), "pool=default")
}

// Which jobs suit a runner with labels, some of them exclusive.
func TestWhichJobsSuitARunner(t *testing.T) {
	has := []string{"gpu=a100", "os=linux", "pool=default"}
	for name, c := range map[string]struct {
		exclusive, asked []string
		want             bool
	}{
		"asked for nothing":              {nil, nil, true},
		"for what it has":                {nil, []string{"os=linux"}, true},
		"for what it lacks":              {nil, []string{"os=linux", "gpu=h100"}, false},
		"not for what is kept":           {[]string{"gpu=a100"}, []string{"os=linux"}, false},
		"for what is kept":               {[]string{"gpu=a100"}, []string{"gpu=a100"}, true},
		"for one of two that are kept":   {[]string{"gpu=a100", "pool=default"}, []string{"gpu=a100"}, false},
		"for nothing where some is kept": {[]string{"gpu=a100"}, nil, false},
	} {
		require.Equal(t, c.want, events.JobRequires{Labels: c.asked}.Met(has, c.exclusive), name)
	}
}
