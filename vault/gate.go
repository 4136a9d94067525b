package vault

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/fault"
)

// A Gate refuses writes while the stored credentials were sealed with another master key:
// what is authenticated or sealed under the wrong key could not be read once the right key
// is back. Once open, it stays open, because another process that rotates the key renews
// the check row before this process knows the new key.
type Gate struct {
	ring   Ring
	db     *pgxpool.Pool
	open   atomic.Bool
	closed atomic.Bool // as of the last check
}

// NewGate returns a gate that checks the ring on the first call of Pass.
func NewGate(ring Ring, db *pgxpool.Pool) *Gate { return &Gate{ring: ring, db: db} }

// Pass returns nil if the gate is open. Until then each call checks the ring. If the gate
// is closed, the error wraps [fault.ErrUnavailable], and [ErrKeyChanged] or [ErrTampered].
func (g *Gate) Pass(ctx context.Context) error {
	if g.open.Load() {
		return nil
	}
	err := unavailable(g.ring.Check(ctx, g.db))
	switch {
	case err == nil:
		g.open.Store(true)
	case errors.Is(err, fault.ErrUnavailable):
		g.closed.Store(true)
	}
	return err
}

// Closed reports whether the last check found that the master key has changed.
func (g *Gate) Closed() bool { return g.closed.Load() && !g.open.Load() }

// confirmKey returns an error that wraps [fault.ErrUnavailable] if the stored credentials
// were sealed with another master key. Before the first [Ring.Check] it accepts every ring.
func (r Ring) confirmKey(ctx context.Context, db *pgxpool.Pool) error {
	var sealed []byte
	err := db.QueryRow(ctx, `select sealed from vault_checks where name = $1`, checkName).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = r.Open(checkPlace, sealed)
	}
	return unavailable(explained(err))
}

// explained adds the name of the variable, and what to do, to an error of the check.
func explained(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrKeyChanged):
		return fmt.Errorf(keyChangedAdvice+"%w", err)
	case errors.Is(err, ErrTampered):
		return fmt.Errorf("check SVC_VAULT_MASTER_KEY: %w", err)
	}
	return fmt.Errorf("read the check of the vault's key: %w", err)
}

// unavailable makes err wrap [fault.ErrUnavailable] if it means that the master key has
// changed.
func unavailable(err error) error {
	if errors.Is(err, ErrKeyChanged) || errors.Is(err, ErrTampered) {
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	return err
}
