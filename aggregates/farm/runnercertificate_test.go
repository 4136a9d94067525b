package farm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func certificateNo(serial string, key byte, days int) events.Certificate {
	return events.Certificate{
		Authority: id(53), Serial: serial, Key: events.KeyHash{key}, NotBefore: noon.AddDate(0, 0, days), NotAfter: noon.AddDate(0, 0, days+7),
	}
}

func renewedTo(c events.Certificate) events.Event {
	return events.RunnerCertificateRenewed{Runner: builder, Name: "builder-1", Certificate: c}
}

func superseded(from, to string) events.Event {
	return events.RunnerCertificateSuperseded{Runner: builder, Name: "builder-1", From: from, Serial: to}
}

func TestRenewACertificate(t *testing.T) {
	second, third := certificateNo("b2", 2, 4), certificateNo("c3", 3, 4)
	renewAt := func(c events.Certificate, shown string, at time.Time) func(*Runner) ([]events.Event, error) {
		return func(r *Runner) ([]events.Event, error) { return r.Renew(c, shown, at) }
	}
	renew := func(c events.Certificate, shown string) func(*Runner) ([]events.Event, error) {
		return renewAt(c, shown, noon.AddDate(0, 0, 5))
	}
	aThird := 7 * 24 * time.Hour / 3
	elsewhere := second
	elsewhere.Authority = id(54)
	check(t, []spec[Runner]{
		{name: "for another key", given: []events.Event{enrolled}, when: renew(second, "a1"), then: []events.Event{renewedTo(second)}},
		{name: "for the same key again", given: []events.Event{enrolled, renewedTo(second)}, when: renew(certificateNo("d4", 2, 5), "a1")},
		{name: "for a third key", given: []events.Event{enrolled, renewedTo(second)}, when: renew(third, "a1"),
			then: []events.Event{renewedTo(third)}},
		{name: "with one that is not current", given: []events.Event{enrolled, renewedTo(second), superseded("a1", "b2")},
			when: renew(third, "a1"), err: ErrSerialUnknown},
		{name: "early", given: []events.Event{enrolled},
			when: renewAt(second, "a1", noon.Add(aThird-time.Second)), err: ErrRenewalEarly.After(time.Second)},
		{name: "after a third of its life", given: []events.Event{enrolled},
			when: renewAt(second, "a1", noon.Add(aThird)), then: []events.Event{renewedTo(second)}},
		{name: "early, of another authority", given: []events.Event{enrolled},
			when: renewAt(elsewhere, "a1", noon), then: []events.Event{renewedTo(elsewhere)}},
		{name: "for a third key within the hour", given: []events.Event{enrolled, renewedTo(second)},
			when: renewAt(third, "a1", second.NotBefore.Add(time.Hour-time.Second)), err: ErrRenewalEarly.After(time.Second)},
		{name: "for the same key within the hour", given: []events.Event{enrolled, renewedTo(second)},
			when: renewAt(second, "a1", second.NotBefore)},
		{name: "for a third key, of another authority", given: []events.Event{enrolled, renewedTo(elsewhere)},
			when: renewAt(third, "a1", second.NotBefore), then: []events.Event{renewedTo(third)}},
		{name: "of a revoked runner", given: []events.Event{enrolled, ended}, when: renew(second, "a1"), err: ErrRunnerOver},
		{name: "of no runner", when: renew(second, "a1"), err: ErrNoRunner},
	})
	r := folded[Runner]([]events.Event{enrolled, renewedTo(second)})
	require.Equal(t, second, r.NewestCertificate())
	r = folded[Runner]([]events.Event{enrolled, renewedTo(second), superseded("a1", "b2")})
	require.Equal(t, second, r.NewestCertificate())
	require.Equal(t, "a1", folded[Runner]([]events.Event{enrolled}).NewestCertificate().Serial)
}

func TestShowACertificate(t *testing.T) {
	second, third := certificateNo("b2", 2, 4), certificateNo("c3", 3, 4)
	show := func(serial string, days int) func(*Runner) ([]events.Event, error) {
		return func(r *Runner) ([]events.Event, error) { return r.UseCertificate(serial, noon.AddDate(0, 0, days)) }
	}
	renewed := []events.Event{enrolled, renewedTo(second)}
	used := after(renewed, superseded("a1", "b2"))
	suspended := []events.Event{
		events.RunnerCertificateReused{Runner: builder, Name: "builder-1", Serial: "a1"},
		events.RunnerSuspended{Runner: builder, Name: "builder-1", Reason: "certificate_reused"},
	}
	check(t, []spec[Runner]{
		{name: "the current one", given: []events.Event{enrolled}, when: show("a1", 1)},
		{name: "the one before, while the new one is not used", given: renewed, when: show("a1", 5)},
		{name: "the new one", given: renewed, when: show("b2", 5), then: []events.Event{superseded("a1", "b2")}},
		{name: "the new one again", given: used, when: show("b2", 5)},
		{name: "the one before, after that", given: used, when: show("a1", 5), then: suspended},
		{name: "the one before, when nobody would be let in by it", given: used, when: show("a1", 8), err: ErrSerialUnknown},
		{name: "the one before, again", given: after(used, suspended...), when: show("a1", 5)},
		{name: "one that was replaced before it was used", given: after(renewed, renewedTo(third)), when: show("b2", 5), err: ErrSerialUnknown},
		{name: "one that nobody issued", given: used, when: show("zz", 5), err: ErrSerialUnknown},
		{name: "of no runner", when: show("a1", 1), err: ErrNoRunner},
	})
	require.Equal(t, events.RunnerStateSuspended, folded[Runner](after(used, suspended...)).State())
}
