// Package seed makes the demonstration: two workspaces, the people in them,
// their service accounts, and runs of the last 90 days. All of it happens
// through the commands that everybody uses, at times that lie in the past.
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
	"svc/projections/fold"
	"svc/sessions"
)

// Development makes the demonstration in a database that holds no workspace
// yet, and keeps the people and the service accounts' tokens in file, mode
// 0600. Where the demonstration is there already, it changes nothing, except
// that it rotates the tokens if file is gone. It refuses a database that holds
// anything else. file may be empty: then nobody learns the tokens.
func Development(ctx context.Context, url, file string, now time.Time) error {
	pool, err := pgxpool.ParseConfig(url)
	if err != nil {
		return errors.New("parse the database's address") // err may quote the password
	}
	pool.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // what a crash loses is made again
	db, err := pgxpool.NewWithConfig(ctx, pool)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer db.Close()
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()

	s := &seed{
		ctx: ctx, db: db, at: now.Add(-91 * 24 * time.Hour).Truncate(time.Hour), now: now, pace: time.Minute,
		passwords: sessions.Passwords{DB: db}, random: rand.New(rand.NewPCG(2026, 11)),
	}
	s.seen = sessions.NewLastSeen(db, slog.Default())
	s.commands = commands.New(log, func() time.Time { return s.at })
	state, err := s.state()
	switch {
	case err != nil:
		return err
	case state == foreign:
		return errors.New("the database holds workspaces that are not the demonstration's, or only a part of it: seed an empty database")
	case state == complete:
		return s.recover(file)
	}
	if err := s.make(); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return s.demo.write(file)
}

// A seed is the making of a demonstration. at is the time at which what it
// does next will have happened, pace how long a minute of a loop takes.
type seed struct {
	ctx       context.Context
	db        *pgxpool.Pool
	commands  *commands.Handler
	passwords sessions.Passwords
	seen      *sessions.LastSeen
	random    *rand.Rand
	at, now   time.Time
	pace      time.Duration
	issue     int       // the number of the newest issue
	builder   events.ID // the service account that has been used
	retired   events.ID // the one that is revoked at the end
	demo      Demo
}

// What a database may hold.
const (
	empty = iota
	complete
	foreign
)

// lastKey is the idempotency key of the last command of a demonstration.
const lastKey = "seed/development/complete"

func (s *seed) state() (int, error) {
	var logs, last bool
	err := s.db.QueryRow(s.ctx, `
		select exists (select from logs), exists (select from commands where key = $1)`, lastKey).Scan(&logs, &last)
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

func (s *seed) make() error {
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
		if err := s.finished(acme, 1+s.random.IntN(4)); err != nil {
			return err
		}
		s.at = day
		if err := s.finished(globex, s.random.IntN(2)); err != nil {
			return err
		}
		s.at = day.Add(24 * time.Hour)
	}
	if err := s.moving(acme); err != nil {
		return err
	}
	if l := s.queue(globex).unsure(); l.err != nil {
		return l.err
	}
	if err := s.invite(acme, s.id(), "nora@acme.example", events.Maintainer); err != nil { // who may still answer
		return err
	}
	if err := s.retire(acme); err != nil {
		return err
	}
	s.lastSeen(acme, team)
	return s.views()
}

// views lets the followed views take everything in, so that the very first
// answers show it.
func (s *seed) views() error {
	for _, v := range projections.Followed() {
		if _, err := fold.Rebuild(s.ctx, s.db, v, func(_, _ int64) {}); err != nil {
			return err
		}
	}
	return nil
}

// lastSeen says when people and the accounts' tokens were last here; Leo never was.
func (s *seed) lastSeen(p place, team cast) {
	for who, ago := range map[string]time.Duration{
		"ada": 2 * time.Minute, "ben": 3 * time.Hour, "mia": 26 * time.Hour, "max": 9 * 24 * time.Hour, "vera": 40 * 24 * time.Hour,
	} {
		s.seen.Member(p.id, team[who].user, s.now.Add(-ago))
	}
	s.seen.ServiceAccount(p.id, s.builder, s.now.Add(-12*time.Minute))
	written, cancel := context.WithCancel(s.ctx)
	cancel()
	s.seen.Run(written) // until nothing waits
}

// id makes the id of something that comes to be now.
func (s *seed) id() events.ID { return events.NewID(s.at) }

// later lets time go by.
func (s *seed) later(d time.Duration) {
	if s.at = s.at.Add(d); s.at.After(s.now) {
		s.at = s.now
	}
}
