package door

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/http/fair"
	"svc/http/reply"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/pgtest"
	"svc/test/world"
)

// as returns the context of a request by c.
func as(t *testing.T, c *Caller) context.Context {
	return WithCaller(t.Context(), c)
}

// someone returns a new caller that owns a workspace.
func someone(workspace events.ID) *Caller {
	user := events.NewID(epoch)
	return &Caller{Workspace: workspace, Person: &Person{User: user, Role: events.Owner}, FoundAt: epoch,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: user}}}
}

// openDoor returns a door with the views of a database.
func openDoor(db *pgxpool.Pool) *Door {
	follower := fold.NewFollower(db, projections.Followed(), func(string) bool { return false }, slog.New(slog.DiscardHandler))
	return New(Config{
		ServiceAccounts: projections.ServiceAccounts{DB: db}, Primary: follower, Replica: follower, Now: func() time.Time { return epoch },
	})
}

func TestBoundsRefuseAlike(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const head = 10
	workspace, elsewhere := world.FillLog(t, db, head), world.FillLog(t, db, head)
	d := openDoor(db)
	d.Bounds.positions = fair.New(fair.Bound{Name: "positions", Slots: 4, Retry: 3 * time.Second})
	ask := func(c *Caller) error {
		r, err := http.NewRequestWithContext(as(t, c), http.MethodGet, "/", nil)
		require.NoError(t, err)
		return d.awaitPosition(r, "11", nil, c)
	}
	one := someone(workspace)
	require.NoError(t, d.AcquireSlot(as(t, one), d.Bounds.positions))
	err := ask(one)
	require.ErrorIs(t, err, fair.ErrShare)
	require.Equal(t, http.StatusTooManyRequests, fault.As(err).Kind.Status())
	require.Equal(t, "rate_limited", fault.As(err).Code)
	require.Equal(t, []string{"3"}, reply.Headers(fault.As(err))["Retry-After"])
	require.ErrorIs(t, ask(someone(workspace)), fair.ErrShare, "another of the workspace")
	for range 3 {
		require.NoError(t, d.AcquireSlot(as(t, someone(events.NewID(epoch))), d.Bounds.positions))
	}
	err = ask(someone(elsewhere))
	require.ErrorIs(t, err, fault.ErrBusy)
	require.Equal(t, http.StatusServiceUnavailable, fault.As(err).Kind.Status())
	require.Equal(t, []string{"3"}, reply.Headers(fault.As(err))["Retry-After"])

	one.ReleaseSlots()
	require.NoError(t, d.AcquireSlot(as(t, someone(workspace)), d.Bounds.positions))
}

// A patientAwaiter waits until the request ends.
type patientAwaiter struct{ Awaiter }

func (patientAwaiter) Await(ctx context.Context, _ string, _ events.ID, _ int64) error {
	<-ctx.Done()
	return fold.ErrNotCaughtUp
}

// A caller that waits for many positions does not block others, and a position that is already reached
// needs no slot.
func TestCallerWaitsForLimitedPositions(t *testing.T) {
	t.Parallel()
	const requests, limit = 140, 16
	db := pgtest.New(t)
	workspace := world.FillLog(t, db, 10)
	s := openDoor(db)
	s.Primary = patientAwaiter{s.Primary}
	ctx, stop := context.WithCancel(t.Context())
	await := func(c Caller, position string) error { // a request has its own
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		require.NoError(t, err)
		return s.awaitPosition(r, position, nil, &c)
	}
	greedy := *someone(workspace)
	answers := make(chan error, requests)
	for range requests {
		go func() { answers <- await(greedy, "99999999") }()
	}
	for range requests - limit {
		require.ErrorIs(t, <-answers, fair.ErrShare)
	}
	held, _, _ := s.Bounds.positions.Usage()
	require.Equal(t, limit, held)
	require.NoError(t, await(greedy, "10"), "already reached")

	other := make(chan error, 1)
	go func() { other <- await(*someone(workspace), "11") }()
	require.Eventually(t, func() bool {
		held, _, _ := s.Bounds.positions.Usage()
		return held == limit+1
	}, time.Minute, time.Millisecond)
	stop()
	for range limit {
		require.ErrorIs(t, <-answers, fold.ErrNotCaughtUp)
	}
	require.ErrorIs(t, <-other, fold.ErrNotCaughtUp)
}

// Forty people cannot take all slots of what lasts as long as the client likes, each with as many service
// accounts as help. Only people can export.
func TestFortyPeopleLeaveSlotsForOthers(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context()) // nobody waits
	cancel()
	b := newBounds()
	for _, bound := range []*fair.Semaphore{b.Streams, b.Exports, b.Downloads} {
		for range 40 {
			h := fair.Holder{Person: events.NewID(epoch)}
			for refused := false; !refused; {
				h.Caller, h.Workspace = events.NewID(epoch), events.NewID(epoch)
				if bound == b.Exports {
					h.Caller = h.Person
				}
				taken := 0
				for _, err := bound.Acquire(ended, h); err == nil; _, err = bound.Acquire(ended, h) {
					taken++
				}
				refused = taken == 0
			}
		}
		_, err := bound.Acquire(ended, fair.Holder{Caller: events.NewID(epoch), Person: events.NewID(epoch), Workspace: events.NewID(epoch)})
		require.NoError(t, err, bound.Bound().Name)
	}
}

// A person has one share for all their service accounts. A rotated token counts against the person who
// rotated it.
func TestTokenCountsAgainstItsIssuer(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openDoor(db)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	stranger, helper, other := events.NewID(epoch), events.NewID(epoch), events.NewID(epoch)
	token := func(by events.Actor, rotated ...events.Actor) *Caller {
		workspace, account := events.NewID(epoch), events.NewID(epoch)
		var current, before events.Fingerprint
		copy(current[:], account[:])
		for version, actor := range append([]events.Actor{by}, rotated...) {
			before, current[31] = current, byte(version+1)
			var e events.Event = events.ServiceAccountCreated{Account: account, Name: "bot", Scopes: []events.Scope{events.ReadAPI},
				Fingerprint: current}
			if version > 0 {
				e = events.ServiceAccountRotated{Account: account, Name: "bot", Scopes: []events.Scope{events.ReadAPI}, From: before,
					Fingerprint: current}
			}
			_, err := log.Append(t.Context(), &events.Commit{
				Workspace: workspace, At: epoch, Envelope: events.Envelope{Actor: actor},
				Writes: []events.Write{{Stream: account, Version: version, Events: []events.Event{e}}},
			})
			require.NoError(t, err)
		}
		return &Caller{Workspace: workspace, Token: &projections.ServiceToken{Workspace: workspace, Account: account, Fingerprint: current},
			FoundAt: epoch, Envelope: events.Envelope{Actor: events.Actor{Type: events.ByService, ID: account}}}
	}
	user := func(id events.ID) events.Actor { return events.Actor{Type: events.ByUser, ID: id} }

	s.Bounds.Exports = fair.New(fair.Bound{Name: "exports", Slots: 8})
	mine := someone(events.NewID(epoch))
	mine.Person.User = stranger
	for range 2 {
		for who, c := range map[string]struct {
			caller *Caller
			person events.ID
		}{
			"the person":          {mine, stranger},
			"one account":         {token(user(stranger)), stranger},
			"another":             {token(user(stranger)), stranger},
			"a rotated one":       {token(user(stranger), user(helper)), helper},
			"rotated twice":       {token(user(stranger), user(helper), user(stranger)), stranger},
			"somebody else's":     {token(user(other), user(stranger)), stranger},
			"one of the system's": {token(events.Actor{Type: events.BySystem, ID: other}), events.ID{}},
		} {
			h, err := s.holder(t.Context(), c.caller)
			require.NoError(t, err)
			require.Equal(t, fair.Holder{Caller: c.caller.Envelope.Actor.ID, Person: c.person, Workspace: c.caller.Workspace}, h, who)
		}
	}
	for range 2 { // accounts of as many workspaces
		require.NoError(t, s.AcquireSlot(as(t, token(user(stranger))), s.Bounds.Exports))
	}
	require.ErrorIs(t, s.AcquireSlot(as(t, token(user(stranger))), s.Bounds.Exports), fair.ErrShare)
	require.ErrorIs(t, s.AcquireSlot(as(t, mine), s.Bounds.Exports), fair.ErrShare)
	require.NoError(t, s.AcquireSlot(as(t, token(user(other))), s.Bounds.Exports))
}

// A caller whose rights end while the request waits for a slot is refused as by a new request.
func TestRightsAreCheckedAfterWaitingForSlot(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	s := openDoor(db)
	workspace := events.NewID(epoch)
	for _, sql := range []string{
		`insert into workspaces values ($1, 'Acme', 'acme', now())`,
		`insert into service_tokens values (decode(repeat('00', 32), 'hex'), $1, $1, 'reader', '{api.read}', 'tail', 'current')`,
	} {
		_, err := db.Exec(t.Context(), sql, workspace)
		require.NoError(t, err)
	}
	s.Bounds.Histories = fair.New(fair.Bound{Name: "histories", Slots: 4, Queue: 4, Wait: time.Minute})
	one := someone(workspace)
	require.NoError(t, s.AcquireSlot(as(t, one), s.Bounds.Histories))
	c := &Caller{Workspace: workspace, FoundAt: epoch.Add(-time.Second),
		Token: &projections.ServiceToken{Workspace: workspace, Scopes: []events.Scope{events.ReadAPI}}}
	s.issuers.Add(c.Token.Fingerprint, one.Person.User)
	answer := make(chan error)
	go func() { answer <- s.AcquireSlot(as(t, c), s.Bounds.Histories) }()
	require.Eventually(t, func() bool {
		_, waiting, _ := s.Bounds.Histories.Usage()
		return waiting == 1
	}, time.Minute, time.Millisecond)
	_, err := db.Exec(t.Context(), `update service_tokens set status = 'revoked'`)
	require.NoError(t, err)
	one.ReleaseSlots()
	require.ErrorIs(t, <-answer, aggregates.ErrTokenInvalid)
}

// However many processors there are, a token leaves a read to the person who issued it.
func TestTokenLeavesAReadToItsPerson(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(32))
	reads, owner, token := newBounds().reads, events.NewID(epoch), events.NewID(epoch)
	_, err := reads.Acquire(t.Context(), fair.Holder{Person: events.NewID(epoch)}) // somebody else asks as well
	require.NoError(t, err)
	at, end := context.WithCancel(t.Context())
	end() // nobody waits
	for {
		if _, err = reads.Acquire(at, fair.Holder{Person: owner, Caller: token}); err != nil {
			break
		}
	}
	_, err = reads.Acquire(at, fair.Holder{Person: owner, Caller: owner})
	require.NoError(t, err)
}
