package commands_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/commands/bearer"
	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/test/pgtest"
	"svc/test/world"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newID() events.ID { return events.NewID(epoch) }

// A clock is the clock of a replica. Only the test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// A replica has what one process of the service has: its own connections, appenders and
// cached folds.
type replica struct {
	*commands.Handler
	log *store.Store
}

// A system is a database and the replicas that share it.
type system struct {
	db    *pgxpool.Pool
	clock *clock
	replica
	other replica
}

func newSystem(t *testing.T) *system {
	t.Helper()
	url := pgtest.URL(t)
	s := &system{db: connect(t, url), clock: &clock{at: epoch}}
	s.replica, s.other = newReplica(t, url, s.clock), newReplica(t, url, s.clock)
	return s
}

func newReplica(t testing.TB, url string, c *clock) replica {
	t.Helper()
	db := connect(t, url)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	ring, err := vault.NewRing([]config.Secret{"the-key-that-the-database-does-not-have"})
	require.NoError(t, err)
	log.EnableSnapshots(ring, slog.New(slog.DiscardHandler))
	h := commands.New(log, c.now)
	h.Views = world.Views(db, func() int64 { return 7 })
	return replica{h, log}
}

func connect(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	return db
}

// A person is a user and their membership of the test's workspace.
type person struct {
	user, member events.ID
	email        string
}

func newPerson(name string) person { return person{newID(), newID(), name + "@acme.example"} }

func (p person) in(workspace events.ID) commands.Meta {
	return commands.Meta{
		Workspace: workspace,
		Envelope:  events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: p.user, Name: p.email}, Origin: events.FromAPI, RequestID: "r-1"},
	}
}

// systems returns the Meta of the system as actor.
func systems(workspace events.ID) commands.Meta {
	return commands.Meta{Workspace: workspace,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}, Origin: events.FromSystem}}
}

// A team is a workspace with a member of each role.
type team struct {
	*system
	id                                     events.ID
	owner, maintainer, viewer, old, nobody person // old has the legacy role, nobody has none
}

func newTeam(t *testing.T) *team {
	t.Helper()
	return newSystem(t).team(t)
}

func (s *system) team(t *testing.T) *team {
	t.Helper()
	m := &team{
		system: s, id: newID(), owner: newPerson("ann"), maintainer: newPerson("mia"), viewer: newPerson("vera"),
		old: newPerson("leo"), nobody: newPerson("nemo"),
	}
	_, err := s.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: m.owner.in(m.id), Member: m.owner.member, Email: m.owner.email, Name: "Acme", Slug: "acme-" + m.id.String()[30:],
	})
	require.NoError(t, err)
	m.add(t, m.maintainer, events.Maintainer)
	m.add(t, m.viewer, events.Viewer)
	m.add(t, m.old, events.Legacy)
	return m
}

func (m *team) add(t *testing.T, p person, r events.Role) {
	t.Helper()
	_, err := m.AddMember(t.Context(), commands.AddMember{Meta: systems(m.id), Member: p.member, User: p.user, Email: p.email, Role: r})
	require.NoError(t, err)
}

// account creates a service account.
func (m *team) account(t *testing.T, name string) (events.ID, bearer.ServiceToken) {
	t.Helper()
	c := commands.CreateServiceAccount{
		Meta: m.owner.in(m.id), Account: newID(), Token: bearer.NewServiceToken(), Name: name, Scopes: []events.Scope{events.ReadAPI},
	}
	_, err := m.CreateServiceAccount(t.Context(), c)
	require.NoError(t, err)
	return c.Account, c.Token
}

// records returns the records of a workspace's log after seq.
func (s *system) records(t *testing.T, workspace events.ID, from int64) []events.Record {
	t.Helper()
	list, err := store.Page{Logs: store.After(workspace, from-1), Limit: 100_000}.Read(t.Context(), s.db)
	require.NoError(t, err)
	return list
}

// history returns the events of a workspace after seq, without denials, which
// denial_test.go is about.
func (s *system) history(t *testing.T, workspace events.ID, from int64) (list []events.Event) {
	t.Helper()
	for _, r := range s.records(t, workspace, from) {
		if _, ok := r.Event.(events.CommandDenied); !ok {
			list = append(list, r.Event)
		}
	}
	return list
}

// denials returns the denials in a workspace's log after a position.
func (s *system) denials(t *testing.T, workspace events.ID, after int64) (list []events.CommandDenied) {
	t.Helper()
	for _, r := range s.records(t, workspace, after+1) {
		if e, ok := r.Event.(events.CommandDenied); ok {
			list = append(list, e)
		}
	}
	return list
}

func (s *system) head(t *testing.T, workspace events.ID) (n int64) {
	t.Helper()
	require.NoError(t, s.db.QueryRow(t.Context(), `select coalesce((select head from logs where workspace_id = $1), 0)`, workspace).Scan(&n))
	return n
}

// requireAdded requires that exactly these events follow position.
func (s *system) requireAdded(t *testing.T, workspace events.ID, position int64, want ...events.Event) {
	t.Helper()
	require.Equal(t, want, s.history(t, workspace, position+1))
}

func ptr[T any](v T) *T { return &v }

func (s *system) roles(t *testing.T, workspace events.ID) map[events.ID]events.Role {
	t.Helper()
	rows, err := s.db.Query(t.Context(), `select user_id, role from members where workspace_id = $1`, workspace)
	require.NoError(t, err)
	defer rows.Close()
	list := map[events.ID]events.Role{}
	for rows.Next() {
		var user events.ID
		var role events.Role
		require.NoError(t, rows.Scan(&user, &role))
		list[user] = role
	}
	require.NoError(t, rows.Err())
	return list
}

func keyed(m commands.Meta, key string) commands.Meta {
	m.Key = key
	return m
}
