//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/bus"
	"svc/events/store"
	"svc/projections"
)

// A clerk is one more process over the same database, but in the test's own:
// its clock and what it gets from the bus are the test's to disturb. It writes to
// acme as the writers do, relays as if it led, and acts upon every account that
// is made in acme by rotating the token of an account in globex.
type clerk struct {
	t        *testing.T
	db       *pgxpool.Pool
	log      *store.Store
	commands *commands.Handler
	acme     commands.Meta
	globex   commands.Meta
	account  events.ID // whose token is rotated
	bus      bus.Config
	said     output

	ahead atomic.Int64 // of the true time, in nanoseconds
	acks  atomic.Int64
	lose  atomic.Int64 // acknowledgements of messages that are still to be lost
	again atomic.Int64 // commands that had been carried out for the same message
	ends  func()       // the work on the bus
	stop  func()       // the writing

	mu  sync.Mutex
	met map[string]int // how often a message came, by its id
}

func startClerk(t *testing.T, s *stage, w *writers, database, busURL string) *clerk {
	t.Helper()
	db, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	c := &clerk{
		t: t, db: db, log: store.New(db, projections.Inline(), func(events.ID, int64) {}), said: output{news: make(chan struct{})},
		acme: orderOf(t, s, "acme"), globex: orderOf(t, s, "globex"), account: events.NewID(time.Now()), met: map[string]int{},
	}
	c.bus = bus.Config{DB: db, Log: slog.New(slog.NewTextHandler(&c.said, nil))}
	if busURL != "" {
		c.bus.URLs = []string{busURL}
	}
	c.commands = commands.New(c.log, c.now)
	_, err = c.commands.CreateServiceAccount(t.Context(), commands.CreateServiceAccount{
		Meta: c.globex, Account: c.account, Token: commands.NewServiceToken(), Name: "clerk", Scopes: []events.Scope{events.ReadAPI},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for i := range 2 {
		writing.Go(func() { c.write(ctx, w, i) })
	}
	c.stop = func() { cancel(); writing.Wait() }
	c.listen()
	t.Cleanup(func() {
		c.stop()
		c.ends()
		c.log.Close()
		db.Close()
	})
	return c
}

// orderOf is what the owner of a workspace asks there.
func orderOf(t *testing.T, s *stage, slug string) commands.Meta {
	t.Helper()
	row := rows(t, s.connect(), `
		select workspace_id, user_id, m.email from workspaces join members m using (workspace_id)
		where slug = $1 and role = 'Owner' order by m.email limit 1`, slug)[0]
	actor := events.Actor{Type: events.ByUser, ID: row[1].([16]byte), Name: row[2].(string)}
	return commands.Meta{Envelope: events.Envelope{Actor: actor, Origin: events.FromAPI}, Workspace: row[0].([16]byte)}
}

func (c *clerk) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// write makes accounts and rotates their tokens until ctx ends.
func (c *clerk) write(ctx context.Context, w *writers, i int) {
	for n := 0; ctx.Err() == nil; n++ {
		d := &deed{kind: "service_account.created", account: events.NewID(time.Now()).String()}
		c.do(ctx, w, d, func(m commands.Meta, account events.ID, token commands.ServiceToken) (commands.Result, error) {
			return c.commands.CreateServiceAccount(ctx, commands.CreateServiceAccount{
				Meta: m, Account: account, Token: token, Name: fmt.Sprintf("c%d-%d", i, n), Scopes: []events.Scope{events.ReadAPI},
			})
		})
		if d.outcome != acknowledged {
			continue
		}
		c.do(ctx, w, &deed{kind: "service_account.rotated", account: d.account},
			func(m commands.Meta, account events.ID, token commands.ServiceToken) (commands.Result, error) {
				return c.commands.RotateServiceAccount(ctx, commands.RotateServiceAccount{Meta: m, Account: account, Token: token})
			})
	}
}

func (c *clerk) do(ctx context.Context, w *writers, d *deed,
	carryOut func(commands.Meta, events.ID, commands.ServiceToken) (commands.Result, error)) {
	meta := c.acme
	meta.RequestID = w.note(d)
	d.requests = []string{meta.RequestID}
	account, err := events.ParseID(d.account)
	if err != nil {
		panic(err) // it is ours
	}
	token := commands.NewServiceToken()
	done, err := carryOut(meta, account, token)
	switch {
	case err == nil:
		d.outcome, d.position, d.token = acknowledged, done.Position, token.Reveal()
		c.acks.Add(1)
	default: // the database is away
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// listen begins to relay and to take in messages.
func (c *clerk) listen() {
	ctx, stop := context.WithCancel(context.WithoutCancel(c.t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		relay := bus.NewRelay(c.db, func(string) bool { return true }, c.bus.Log)
		bus.Run(ctx, c.bus, relay, bus.Consumer{Name: "clerk", Take: c.take})
	})
	c.ends = func() { stop(); running.Wait() }
}

// take acts upon a message. That the database is away is no fault of the
// message's: the bus sees to it that it comes again.
func (c *clerk) take(m *message.Message) error {
	c.mu.Lock()
	c.met[m.UUID]++
	first := c.met[m.UUID] == 1
	c.mu.Unlock()
	if m.Metadata.Get("workspace") != c.acme.Workspace.String() || m.Metadata.Get("kind") != "service_account.created" {
		return nil
	}
	meta := c.globex
	meta.Key, meta.RequestID = m.UUID, m.UUID
	done, err := c.commands.RotateServiceAccount(m.Context(),
		commands.RotateServiceAccount{Meta: meta, Account: c.account, Token: commands.NewServiceToken()})
	if err != nil {
		return err
	}
	if done.Replayed {
		c.again.Add(1)
	}
	if first && c.lose.Load() > 0 {
		c.lose.Add(-1)
		return errors.New("the acknowledgement is lost")
	}
	return nil
}

// came tells how often a message came.
func (c *clerk) came(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.met[id]
}

// requireActedOnce proves that every event of acme after a position has come
// over the bus, and that what has to follow from one has followed once.
func (c *clerk) requireActedOnce(t *testing.T, s *stage, after int64) {
	t.Helper()
	list := rows(t, s.connect(), `select id::text, kind, seq from events where workspace_id = $1 order by seq`, c.acme.Workspace)
	rest := list[after:] // the bus need not keep what was there before
	require.Eventually(t, func() bool {
		for len(rest) > 0 && c.came(rest[0][0].(string)) > 0 {
			rest = rest[1:]
		}
		return len(rest) == 0
	}, patience, 5*time.Millisecond, "an event has not come over the bus")
	c.ends() // what was taken last is done

	done := map[string]int64{} // by message
	for _, row := range rows(t, s.connect(), `
		select meta->>'requestId', count(*) from events where workspace_id = $1 and stream = $2 and kind = 'service_account.rotated'
		group by 1`, c.globex.Workspace, c.account) {
		done[row[0].(string)] = row[1].(int64)
	}
	acted := 0
	for _, row := range list {
		id, seq := row[0].(string), row[2].(int64)
		if row[1] != "service_account.created" || seq <= after && done[id] == 0 {
			continue
		}
		require.EqualValues(t, 1, done[id], "what follows from %s", id)
		delete(done, id)
		acted++
	}
	require.Empty(t, done, "what follows from nothing")
	require.NotContains(t, c.said.String(), "a message was parked")
	t.Logf("%d events came over the bus, %d of them were acted upon; %d came again after that", len(list)-int(after), acted, c.again.Load())
}
