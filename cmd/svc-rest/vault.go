package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events/store"
	"svc/proof"
	"svc/vault"
)

// A vaultCheck checks whether stored credentials can be unsealed, and reseals or authenticates again what was
// stored under an earlier key. The service runs meanwhile; gate refuses writes if the master key has changed.
type vaultCheck struct {
	ring  vault.Ring
	gate  *vault.Gate
	db    *pgxpool.Pool
	log   *slog.Logger
	pause time.Duration // before the second attempt; it doubles, up to maxVaultPause
}

const maxVaultPause = 5 * time.Minute

// run returns when everything is sealed with the first key, except what no key opens, when the master
// key has changed, or when ctx ends. Until then it tries again, because the database may start after
// the service, and other replicas may still seal with an earlier key.
func (v vaultCheck) run(ctx context.Context) {
	var left int64
	for pause := v.pause; ; pause = min(2*pause, maxVaultPause) {
		done, err := v.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, vault.ErrKeyChanged), errors.Is(err, vault.ErrTampered):
			v.log.Error("stored credentials cannot be opened", "err", err)
			return
		case err != nil:
			v.log.Warn("the vault is not checked yet: keep earlier keys in SVC_VAULT_MASTER_KEY", "err", err, "retry", pause)
		case done.Left == 0:
			v.log.Info("the vault is checked: nothing is sealed with an earlier key")
			return
		case done.Stuck():
			v.log.Error("the vault is checked: nothing that can be opened is sealed with an earlier key, but some values "+
				"cannot be opened: they were altered, or sealed with a key that SVC_VAULT_MASTER_KEY does not list",
				"unknown_key", done.Unknown, "altered", done.Tampered, "values", done.Unopened)
			return
		case done.Left != left:
			v.log.Warn("the vault is checked: something is sealed with an earlier key: remove none from SVC_VAULT_MASTER_KEY",
				"left", done.Left, "unknown_key", done.Unknown, "altered", done.Tampered, "values", done.Unopened)
			left = done.Left
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (v vaultCheck) once(ctx context.Context) (vault.Rotation, error) {
	_ = v.gate.Pass(ctx) // sets the readiness warning; Check returns the reason
	if err := v.ring.Check(ctx, v.db); err != nil {
		return vault.Rotation{}, err
	}
	done, err := vault.Rotate(ctx, v.db, v.ring)
	if err != nil {
		return done, fmt.Errorf("reseal credentials: %w", err)
	}
	if done.Resealed > 0 {
		v.log.Info("resealed credentials", "rotation", done)
	}
	n, err := store.RotateSnapshots(ctx, v.db, v.ring)
	if err != nil {
		return done, fmt.Errorf("renew the MACs of snapshots: %w", err)
	}
	if n > 0 {
		v.log.Info("renewed the MACs of snapshots", "snapshots", n)
	}
	if n, err = proof.RotateReports(ctx, v.db, v.ring); err != nil {
		return done, err
	}
	if n > 0 {
		v.log.Info("renewed the MACs of verifications", "verifications", n)
	}
	return done, nil
}
