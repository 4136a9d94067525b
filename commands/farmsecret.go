package commands

import (
	"context"

	"svc/aggregates/farm"
	"svc/commands/work"
	"svc/events"
)

// SetFarmSecret sets the value of a secret of jobs, its scope, or both. The caller has stored the value in the
// vault, under a new id.
type SetFarmSecret struct {
	Meta  `json:"-"`
	Name  string              `json:"name"`
	Value events.ID           `json:"-"`               // zero: the value stays
	Scope *events.SecretScope `json:"scope,omitempty"` // nil: the scope stays
}

func (c SetFarmSecret) denial() events.CommandDenied {
	return secretDenial(events.FarmSecretSet{}, c.Name)
}

// secretDenial includes the name only if it is well-formed.
func secretDenial(e events.Event, name string) events.CommandDenied {
	denied := denialOf(e, events.ID{})
	if farm.SecretName.Fits(name) {
		denied.Name = name
	}
	return denied
}

// SetFarmSecret refuses callers who may not manage secrets, as does RemoveFarmSecret.
// former is the vault's id of the previous value, which can be deleted; it is zero if there
// was none.
func (h *Handler) SetFarmSecret(ctx context.Context, c SetFarmSecret) (done Result, former events.ID, err error) {
	done, err = h.Execute(ctx, c.Meta, c, onFarmSecrets(func(secrets *farm.FarmSecrets) ([]events.Event, error) {
		if !c.Value.IsZero() {
			former = secrets.Value(c.Name)
		}
		return secrets.Set(c.Name, c.Value, c.Scope)
	}))
	return done, former, err
}

// RemoveFarmSecret removes a secret of jobs.
type RemoveFarmSecret struct {
	Meta `json:"-"`
	Name string `json:"name"`
}

func (c RemoveFarmSecret) denial() events.CommandDenied {
	return secretDenial(events.FarmSecretRemoved{}, c.Name)
}

func (RemoveFarmSecret) limit() *limit { return ending }

// RemoveFarmSecret returns the vault's id of the former value, which can be deleted.
func (h *Handler) RemoveFarmSecret(ctx context.Context, c RemoveFarmSecret) (done Result, former events.ID, err error) {
	done, err = h.Execute(ctx, c.Meta, c, onFarmSecrets(func(secrets *farm.FarmSecrets) ([]events.Event, error) {
		former = secrets.Value(c.Name)
		return secrets.Remove(c.Name)
	}))
	return done, former, err
}

// onFarmSecrets is work.On for a workspace's secrets of jobs, for people who may manage them.
func onFarmSecrets(decide func(*farm.FarmSecrets) ([]events.Event, error)) work.Decide {
	return ifAllowed(events.ManageFarmSecrets, work.On(events.FarmSecretStream,
		func(_ *work.Unit, secrets *farm.FarmSecrets) ([]events.Event, error) {
			return decide(secrets)
		}))
}
