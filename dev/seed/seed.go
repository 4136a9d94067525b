// Package seed creates the demonstration: two workspaces, their people and service accounts, and
// runs of the last 90 days. It uses the same commands as everybody else, with times in the past.
package seed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/rebuild"
	"svc/sessions"
	"svc/vault"
)

// Development creates the demonstration in a database without workspaces, and writes the people and
// the service accounts' tokens to file with mode 0600. If the demonstration exists already, it
// changes nothing, except that it rotates the tokens if file is missing or of another database. It
// refuses a database with anything else. If file is "", the tokens are lost. The ring has the vault's
// key of the services, which sign no event that was appended without it.
func Development(ctx context.Context, url string, ring vault.Ring, file string, now time.Time) error {
	s, err := open(ctx, url, ring, now)
	if err != nil {
		return err
	}
	defer s.close()
	state, err := s.state()
	switch {
	case err != nil:
		return err
	case state == foreign:
		return errors.New("the database holds workspaces that are not the demonstration's, or only a part of it: seed an empty database")
	case state == complete:
		return s.restoreFile(file)
	}
	if err := s.createAll(); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return s.demo.write(file)
}

// open connects to the database. The caller calls close.
func open(ctx context.Context, url string, ring vault.Ring, now time.Time) (*seed, error) {
	pool, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("parse the database's address") // err may quote the password
	}
	store.RequireUTF8(pool.ConnConfig)
	pool.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // lost data is created again
	db, err := pgxpool.NewWithConfig(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	log.Authenticate(ring)
	log.Permit(vault.NewGate(ring, db).Pass)
	s := &seed{
		ctx: ctx, db: db, at: now.Add(-91 * 24 * time.Hour).Truncate(time.Hour), now: now,
		passwords: sessions.Passwords{DB: db}, random: rand.New(rand.NewPCG(2026, 11)), places: map[events.ID]map[int]bool{},
	}
	s.close = func() { log.Close(); db.Close() }
	s.seen = sessions.NewLastSeen(db, slog.Default())
	s.commands = commands.New(log, func() time.Time { return s.at })
	s.commands.Views.Turn = func(events.ID, events.ID, events.JobSpec) func(context.Context) (string, int64, error) {
		return func(context.Context) (string, int64, error) { return "loop/normal", s.now.UnixMilli(), nil }
	}
	return s, nil
}

// A seed creates a demonstration. at is the time of the next event.
type seed struct {
	ctx       context.Context
	db        *pgxpool.Pool
	commands  *commands.Handler
	passwords sessions.Passwords
	seen      *sessions.LastSeen
	random    *rand.Rand
	at, now   time.Time
	places    map[events.ID]map[int]bool // that active runs of a workspace or a repository have
	issue     int                        // number of the newest issue
	builder   events.ID                  // service account that was used
	retired   events.ID                  // service account that is revoked at the end
	demo      Demo
	close     func()
}

// What a database contains.
const (
	empty = iota
	complete
	foreign
)

// state recognizes a complete demonstration by the account that its last command has revoked. Only
// the demonstration has passwords.
func (s *seed) state() (int, error) {
	var logs, last bool
	err := s.db.QueryRow(s.ctx, `
		select exists (select from logs), exists (select from passwords)
			and exists (select from service_accounts where name = $1 and status = 'revoked')`, retired).Scan(&logs, &last)
	switch {
	case err != nil:
		return 0, fmt.Errorf("look what is there: %w", err)
	case last:
		return complete, nil
	case logs:
		return foreign, nil
	}
	return empty, nil
}

func (s *seed) createAll() error {
	team, err := s.people()
	if err != nil {
		return err
	}
	acme, globex, err := s.workspaces(team)
	if err != nil {
		return err
	}
	for s.at.Before(s.now.Add(-36 * time.Hour)) {
		day := s.at
		if err := s.simulateEndedRuns(acme, 1+s.random.IntN(4)); err != nil {
			return err
		}
		s.at = day
		if err := s.simulateEndedRuns(globex, s.random.IntN(2)); err != nil {
			return err
		}
		s.at = day.Add(24 * time.Hour)
	}
	if err := s.simulateActiveRuns(acme); err != nil {
		return err
	}
	l := s.queueIssue(globex, "Wrong time zone in reports", globex.repos[0])
	l.pace = time.Second
	if l.unsure(); l.err != nil {
		return l.err
	}
	if err := s.invite(acme, s.id(), "nora@acme.example", events.Maintainer); err != nil { // may still answer
		return err
	}
	if err := s.markComplete(acme); err != nil {
		return err
	}
	s.lastSeen(acme, team)
	return s.rebuildViews()
}

// rebuildViews rebuilds the followed views, so that the first answers are complete.
func (s *seed) rebuildViews() error {
	return rebuild.Views(s.ctx, s.db, projections.Followed(), rebuild.Options{})
}

// lastSeen sets when people and the service account were last active. Leo never was.
func (s *seed) lastSeen(p demoWorkspace, team demoPeople) {
	for who, ago := range map[string]time.Duration{
		"ada": 2 * time.Minute, "ben": 3 * time.Hour, "mia": 26 * time.Hour, "max": 9 * 24 * time.Hour, "vera": 40 * 24 * time.Hour,
	} {
		s.seen.Member(p.id, team[who].user, s.now.Add(-ago))
	}
	s.seen.ServiceAccount(p.id, s.builder, s.now.Add(-12*time.Minute))
	written, cancel := context.WithCancel(s.ctx)
	cancel()
	s.seen.Run(written) // flushes and returns
}

// id returns a new id with the simulated time.
func (s *seed) id() events.ID { return events.NewID(s.at) }

// advance advances the simulated time, up to now.
func (s *seed) advance(d time.Duration) {
	if s.at = s.at.Add(d); s.at.After(s.now) {
		s.at = s.now
	}
}
