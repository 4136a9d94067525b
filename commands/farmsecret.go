package commands

import (
	"context"

	"svc/aggregates"
	"svc/events"
)

// SetFarmSecret sets the value of a secret of jobs. The caller has stored the value in the
// vault, under a new id.
type SetFarmSecret struct {
	Meta  `json:"-"`
	Name  string    `json:"name"`
	Value events.ID `json:"-"`
}

func (c SetFarmSecret) denial() events.CommandDenied {
	return secretDenial(events.FarmSecretSet{}, c.Name)
}

// secretDenial includes the name only if it is well-formed.
func secretDenial(e events.Event, name string) events.CommandDenied {
	denied := denialOf(e, events.ID{})
	if aggregates.SecretName.Fits(name) {
		denied.Name = name
	}
	return denied
}

// SetFarmSecret refuses callers who may not manage secrets, as does RemoveFarmSecret.
// former is the vault's id of the previous value, which can be deleted; it is zero if there
// was none.
func (h *Handler) SetFarmSecret(ctx context.Context, c SetFarmSecret) (done Result, former events.ID, err error) {
	done, err = h.execute(ctx, c.Meta, c, func(w *work) error {
		if err := w.allow(events.ManageFarmSecrets); err != nil {
			return err
		}
		secrets, err := load[aggregates.FarmSecrets](w, events.FarmSecretStream)
		if err != nil {
			return err
		}
		former = secrets.Value(c.Name)
		list, err := secrets.Set(c.Name, c.Value)
		return w.addEvents(events.FarmSecretStream, list, err)
	})
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

// RemoveFarmSecret returns the vault's id of the former value, which can be deleted.
func (h *Handler) RemoveFarmSecret(ctx context.Context, c RemoveFarmSecret) (done Result, former events.ID, err error) {
	done, err = h.execute(ctx, c.Meta, c, func(w *work) error {
		if err := w.allow(events.ManageFarmSecrets); err != nil {
			return err
		}
		secrets, err := load[aggregates.FarmSecrets](w, events.FarmSecretStream)
		if err != nil {
			return err
		}
		former = secrets.Value(c.Name)
		list, err := secrets.Remove(c.Name)
		return w.addEvents(events.FarmSecretStream, list, err)
	})
	return done, former, err
}
