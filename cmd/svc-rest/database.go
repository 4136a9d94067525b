package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/config"
	"svc/events/store"
	"svc/fault"
	"svc/projections/fold"
)

const maxConnections = 24 // default size of a pool, unless the URL has pool_max_conns

// A database has the connections to PostgreSQL.
type database struct {
	*pgxpool.Pool
	lists  *pgxpool.Pool   // for lists: the same pool, or that of a read replica
	direct *pgx.ConnConfig // for sessions that must not go through a pooler
}

// openDatabase opens the pools. It does not wait until the database answers.
func openDatabase(cfg Config) (d database, err error) {
	if d.direct, err = direct(cfg); err != nil {
		return d, err
	}
	if d.Pool, err = open("SVC_DATABASE_URL", cfg.DatabaseURL, nil); err != nil {
		return d, err
	}
	d.lists = d.Pool
	if cfg.DatabaseReadURL.IsZero() {
		return d, nil
	}
	if d.lists, err = open("SVC_DATABASE_READ_URL", cfg.DatabaseReadURL, fold.CheckServer); err != nil {
		d.Pool.Close()
	}
	return d, err
}

func (d database) hasReplica() bool { return d.lists != d.Pool }

func (d database) close() {
	d.lists.Close()
	d.Pool.Close() // closing a pool twice is allowed
}

// load returns the used fraction of the connections of the busier pool.
func (d database) load() float64 { return max(load(d.Pool), load(d.lists)) }

// load returns the used fraction of a pool's connections.
func load(db *pgxpool.Pool) float64 {
	stat := db.Stat()
	return float64(stat.AcquiredConns()) / float64(stat.MaxConns())
}

// direct returns the configuration of connections that do not go through a pooler.
func direct(cfg Config) (*pgx.ConnConfig, error) {
	if cfg.DatabaseDirectURL.Reveal() == "" {
		cfg.DatabaseDirectURL = cfg.DatabaseURL
	}
	pool, err := pgxpool.ParseConfig(cfg.DatabaseDirectURL.Reveal())
	if err != nil {
		return nil, errors.New("SVC_DATABASE_DIRECT_URL is malformed: want a PostgreSQL address")
	}
	store.RequireUTF8(pool.ConnConfig)
	return pool.ConnConfig, nil
}

// open opens a pool. check, which may be nil, checks each connection before it is used.
func open(variable string, address config.URL, check func(context.Context, *pgx.Conn) (bool, error)) (*pgxpool.Pool, error) {
	pool, err := pgxpool.ParseConfig(address.Reveal())
	if err != nil {
		return nil, fmt.Errorf("%s is malformed: want a PostgreSQL address", variable) // err may quote the password
	}
	if !address.URL().Query().Has("pool_max_conns") {
		pool.MaxConns = maxConnections
	}
	store.RequireUTF8(pool.ConnConfig)
	pool.PrepareConn = check
	db, err := pgxpool.NewWithConfig(context.Background(), pool)
	return db, fault.Wrap(err, "open database")
}
