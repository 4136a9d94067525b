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
	"svc/commands/bearer"
	"svc/config"
	"svc/events"
	"svc/events/bus"
	"svc/events/store"
	"svc/projections"
	"svc/vault"
)

// A localWorker acts as another process on the same database, but runs in the test's process, so
// that the test can disturb its clock and its messages. It writes to acme as the writers do, runs
// the relay without leader election, and handles each account that is created in acme by rotating
// the token of an account in globex.
type localWorker struct {
	t        *testing.T
	db       *pgxpool.Pool
	log      *store.Store
	commands *commands.Handler
	acme     commands.Meta
	globex   commands.Meta
	account  events.ID // whose token is rotated
	bus      bus.Config
	logged   output

	clockOffset atomic.Int64 // added to the true time, in nanoseconds
	acks        atomic.Int64
	acksToLose  atomic.Int64 // acknowledgements of messages still to be dropped
	redelivered atomic.Int64 // messages that had been handled before
	stopBus     func()       // stops relay and consumer
	stopWriting func()       // stops the writing of commands

	mu         sync.Mutex
	deliveries map[string]int // by id of the message
}

// startLocalWorker starts two writers, the relay and the consumer. An empty busURL means PostgreSQL.
func startLocalWorker(t *testing.T, s *deployment, w *writers, database, busURL string) *localWorker {
	t.Helper()
	db, err := pgxpool.New(t.Context(), database)
	require.NoError(t, err)
	c := &localWorker{
		t: t, db: db, log: store.New(db, projections.Inline(), func(events.ID, int64) {}), logged: output{changed: make(chan struct{})},
		acme: ownerMeta(t, s, "acme"), globex: ownerMeta(t, s, "globex"), account: events.NewID(time.Now()), deliveries: map[string]int{},
	}
	ring, err := vault.NewRing([]config.Secret{config.Secret(s.installation.secrets()["vaultMasterKey"])})
	require.NoError(t, err)
	c.log.Authenticate(ring) // the services sign no event without a MAC, and decide nothing from it
	c.bus = bus.Config{DB: db, Log: slog.New(slog.NewTextHandler(&c.logged, nil))}
	if busURL != "" {
		c.bus.URLs = []string{busURL}
	}
	c.commands = commands.New(c.log, c.now)
	_, err = c.commands.CreateServiceAccount(t.Context(), commands.CreateServiceAccount{
		Meta: c.globex, Account: c.account, Token: bearer.NewServiceToken(), Name: "worker", Scopes: []events.Scope{events.ReadAPI},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for i := range 2 {
		writing.Go(func() { c.write(ctx, w, i) })
	}
	c.stopWriting = func() { cancel(); writing.Wait() }
	c.startBus()
	t.Cleanup(func() {
		c.stopWriting()
		c.stopBus()
		c.log.Close()
		db.Close()
	})
	return c
}

// ownerMeta returns the metadata of commands by the Owner of a workspace.
func ownerMeta(t *testing.T, s *deployment, slug string) commands.Meta {
	t.Helper()
	row := queryRows(t, s.connect(), `
		select workspace_id, user_id, m.email from workspaces join members m using (workspace_id)
		where slug = $1 and role = 'Owner' order by m.email limit 1`, slug)[0]
	actor := events.Actor{Type: events.ByUser, ID: row[1].([16]byte), Name: row[2].(string)}
	return commands.Meta{Envelope: events.Envelope{Actor: actor, Origin: events.FromAPI}, Workspace: row[0].([16]byte)}
}

func (c *localWorker) now() time.Time { return time.Now().Add(time.Duration(c.clockOffset.Load())) }

// write creates accounts and rotates their tokens until ctx ends.
func (c *localWorker) write(ctx context.Context, w *writers, i int) {
	for n := 0; ctx.Err() == nil; n++ {
		d := &sentCommand{kind: "service_account.created", account: events.NewID(time.Now()).String()}
		c.send(ctx, w, d, func(m commands.Meta, account events.ID, token bearer.ServiceToken) (commands.Result, error) {
			return c.commands.CreateServiceAccount(ctx, commands.CreateServiceAccount{
				Meta: m, Account: account, Token: token, Name: fmt.Sprintf("c%d-%d", i, n), Scopes: []events.Scope{events.ReadAPI},
			})
		})
		if d.outcome != acknowledged {
			continue
		}
		c.send(ctx, w, &sentCommand{kind: "service_account.rotated", account: d.account},
			func(m commands.Meta, account events.ID, token bearer.ServiceToken) (commands.Result, error) {
				return c.commands.RotateServiceAccount(ctx, commands.RotateServiceAccount{Meta: m, Account: account, Token: token})
			})
	}
}

// send executes a command and records its outcome. Any error leaves it unknown.
func (c *localWorker) send(ctx context.Context, w *writers, d *sentCommand,
	execute func(commands.Meta, events.ID, bearer.ServiceToken) (commands.Result, error)) {
	_ = w.pace.Wait(ctx) // as in writers.send
	meta := c.acme
	meta.RequestID = w.register(d)
	d.requests = []string{meta.RequestID}
	account, err := events.ParseID(d.account)
	if err != nil {
		panic(err) // it was made by events.NewID
	}
	token := bearer.NewServiceToken()
	done, err := execute(meta, account, token)
	switch {
	case err == nil:
		d.outcome, d.position, d.token = acknowledged, done.Position, token.Reveal()
		c.acks.Add(1)
	default: // the database is unavailable
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// startBus starts the relay and the consumer.
func (c *localWorker) startBus() {
	ctx, stop := context.WithCancel(context.WithoutCancel(c.t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		relay := bus.NewRelay(c.db, func(string) bool { return true }, c.bus.Log)
		bus.Run(ctx, c.bus, relay, bus.Consumer{Name: "worker", Handle: c.handle})
	})
	c.stopBus = func() { stop(); running.Wait() }
}

// handle handles a message. An error, such as of an unavailable database, makes the bus
// deliver the message again.
func (c *localWorker) handle(m *message.Message) error {
	c.mu.Lock()
	c.deliveries[m.UUID]++
	first := c.deliveries[m.UUID] == 1
	c.mu.Unlock()
	if m.Metadata.Get("workspace") != c.acme.Workspace.String() || m.Metadata.Get("kind") != "service_account.created" {
		return nil
	}
	meta := c.globex
	meta.Key, meta.RequestID = m.UUID, m.UUID
	done, err := c.commands.RotateServiceAccount(m.Context(),
		commands.RotateServiceAccount{Meta: meta, Account: c.account, Token: bearer.NewServiceToken()})
	if err != nil {
		return err
	}
	if done.Replayed {
		c.redelivered.Add(1)
	}
	if first && c.acksToLose.Load() > 0 {
		c.acksToLose.Add(-1)
		return errors.New("the acknowledgement is lost")
	}
	return nil
}

// countDeliveries returns how often a message was delivered.
func (c *localWorker) countDeliveries(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deliveries[id]
}

// requireEachEventHandledOnce requires that the bus has delivered every event of acme after a
// position, and that each created account was handled exactly once.
func (c *localWorker) requireEachEventHandledOnce(t *testing.T, s *deployment, after int64) {
	t.Helper()
	list := queryRows(t, s.connect(), `select id::text, kind, seq from events where workspace_id = $1 order by seq`, c.acme.Workspace)
	rest := list[after:] // the bus need not deliver earlier events
	require.Eventually(t, func() bool {
		for len(rest) > 0 && c.countDeliveries(rest[0][0].(string)) > 0 {
			rest = rest[1:]
		}
		return len(rest) == 0
	}, waitLimit, 5*time.Millisecond, "an event was not delivered")
	c.stopBus() // waits for the last handler

	done := map[string]int64{} // rotations by id of the message
	for _, row := range queryRows(t, s.connect(), `
		select meta->>'requestId', count(*) from events where workspace_id = $1 and stream = $2 and kind = 'service_account.rotated'
		group by 1`, c.globex.Workspace, c.account) {
		done[row[0].(string)] = row[1].(int64)
	}
	handled := 0
	for _, row := range list {
		id, seq := row[0].(string), row[2].(int64)
		if row[1] != "service_account.created" || seq <= after && done[id] == 0 {
			continue
		}
		require.EqualValues(t, 1, done[id], "handling of %s", id)
		delete(done, id)
		handled++
	}
	require.Empty(t, done, "rotations without a message")
	require.NotContains(t, c.logged.String(), "a message was parked")
	t.Logf("%d events delivered, %d of them handled, %d redelivered after that", len(list)-int(after), handled, c.redelivered.Load())
}
