package main

import (
	"context"
	"errors"

	"svc/events"
	"svc/farm/dispatch"
	"svc/projections"
	"svc/vault"
)

// farmSecrets has the secret values for jobs, sealed in the vault. Each is stored under an id that
// an event of the workspace contains.
type farmSecrets struct {
	view  projections.FarmSecrets
	vault vault.Secrets
}

func farmSecretName(workspace, value events.ID) string {
	return "farm_secret/" + workspace.String() + "/" + value.String()
}

// Put seals a value.
func (s farmSecrets) Put(ctx context.Context, workspace, value events.ID, text string) error {
	return s.vault.Put(ctx, farmSecretName(workspace, value), []byte(text))
}

// Size returns the total size of values in bytes.
func (s farmSecrets) Size(ctx context.Context, workspace events.ID, values []events.ID) (int64, error) {
	var names []string
	for _, value := range values {
		names = append(names, farmSecretName(workspace, value))
	}
	return s.vault.Size(ctx, names)
}

// Delete deletes a value.
func (s farmSecrets) Delete(ctx context.Context, workspace, value events.ID) error {
	return s.vault.Delete(ctx, farmSecretName(workspace, value))
}

// Reveal returns the values that secrets of a workspace have. Its error is a
// [dispatch.MissingSecretError] if there is one that has none, and a [dispatch.UnreadableSecretError] if one
// was altered. One under another master key is neither: the key may come back.
func (s farmSecrets) Reveal(ctx context.Context, workspace events.ID, names []string) (map[string]string, error) {
	values, missing, err := s.reveal(ctx, workspace, names)
	if err == nil && missing != "" { // its value may just have been replaced
		values, missing, err = s.reveal(ctx, workspace, names)
	}
	if err == nil && missing != "" {
		err = &dispatch.MissingSecretError{Name: missing}
	}
	if err != nil {
		return nil, err
	}
	return values, nil
}

func (s farmSecrets) reveal(ctx context.Context, workspace events.ID, names []string) (values map[string]string, missing string, err error) {
	list, err := s.view.List(ctx, workspace)
	if err != nil {
		return nil, "", err
	}
	ids := map[string]events.ID{}
	for _, secret := range list {
		ids[secret.Name] = secret.Value
	}
	values = make(map[string]string, len(names))
	for _, name := range names {
		text, ok, err := s.vault.Get(ctx, farmSecretName(workspace, ids[name]))
		if errors.Is(err, vault.ErrTampered) {
			err = &dispatch.UnreadableSecretError{Name: name, Err: err}
		}
		if err != nil || !ok {
			return nil, name, err
		}
		values[name] = string(text)
	}
	return values, "", nil
}

func (p parts) farmSecrets() farmSecrets {
	return farmSecrets{projections.FarmSecrets{DB: p.db.Pool}, vault.Secrets{DB: p.db.Pool, Ring: p.ring}}
}
