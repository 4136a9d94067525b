package commands

import (
	"context"

	"svc/aggregates"
	"svc/events"
)

// SetFarmSecret gives a secret of jobs a value, which the caller has put in the vault
// under a name that nobody used before.
type SetFarmSecret struct {
	Meta  `json:"-"`
	Name  string    `json:"name"`
	Value events.ID `json:"-"`
}

func (c SetFarmSecret) denial() events.CommandDenied {
	return secretDenial(events.FarmSecretSet{}, c.Name)
}

// secretDenial names a secret, if what was sent is the name of one.
func secretDenial(e events.Event, name string) events.CommandDenied {
	denied := denialOf(e, events.ID{})
	if aggregates.SecretName.Fits(name) {
		denied.Name = name
	}
	return denied
}

// SetFarmSecret refuses whoever does not manage secrets, as does RemoveFarmSecret. former
// is the value before, which nobody needs any more; it is zero if there was none.
func (h *Handler) SetFarmSecret(ctx context.Context, c SetFarmSecret) (done Result, former events.ID, err error) {
	done, err = h.carry(ctx, c.Meta, c, func(w *work) error {
		if err := w.allow(events.ManageFarmSecrets); err != nil {
			return err
		}
		secrets, err := load[aggregates.FarmSecrets](w, events.FarmSecretStream)
		if err != nil {
			return err
		}
		former = secrets.Value(c.Name)
		list, err := secrets.Set(c.Name, c.Value)
		return w.then(events.FarmSecretStream, list, err)
	})
	return done, former, err
}

// RemoveFarmSecret takes a secret of jobs away.
type RemoveFarmSecret struct {
	Meta `json:"-"`
	Name string `json:"name"`
}

func (c RemoveFarmSecret) denial() events.CommandDenied {
	return secretDenial(events.FarmSecretRemoved{}, c.Name)
}

// RemoveFarmSecret returns the value that nobody needs any more.
func (h *Handler) RemoveFarmSecret(ctx context.Context, c RemoveFarmSecret) (done Result, former events.ID, err error) {
	done, err = h.carry(ctx, c.Meta, c, func(w *work) error {
		if err := w.allow(events.ManageFarmSecrets); err != nil {
			return err
		}
		secrets, err := load[aggregates.FarmSecrets](w, events.FarmSecretStream)
		if err != nil {
			return err
		}
		former = secrets.Value(c.Name)
		list, err := secrets.Remove(c.Name)
		return w.then(events.FarmSecretStream, list, err)
	})
	return done, former, err
}
