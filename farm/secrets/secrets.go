// Package secrets stores and reveals the secret values that jobs use. A value is sealed in the vault
// under an id that an event of its workspace contains, with its name.
package secrets

import (
	"context"
	"errors"

	"svc/events"
	"svc/vault"
)

// Secrets are the secret values of all workspaces. Its methods may be called concurrently.
type Secrets struct {
	Vault vault.Secrets

	// Values returns the ids of the values of a workspace's secrets by name, as [svc/commands.Handler.FarmSecretValues]
	// does. They are not read from a view, in which somebody who can write to the database could swap them.
	Values func(ctx context.Context, workspace events.ID) (map[string]events.ID, error)
}

// A MissingError reports that a job names a secret that the workspace does not have.
type MissingError struct{ Name string }

func (e *MissingError) Error() string { return "there is no secret " + e.Name }

// An UnreadableError reports that a secret can never be decrypted again. Err has the reason, for
// operators.
type UnreadableError struct {
	Name string
	Err  error
}

func (e *UnreadableError) Error() string {
	return "the secret " + e.Name + " cannot be opened: set it again"
}
func (e *UnreadableError) Unwrap() error { return e.Err }

// VaultPrefix begins the names of the values in the vault.
const VaultPrefix = "farm_secret/"

func vaultName(workspace, value events.ID) string {
	return VaultPrefix + workspace.String() + "/" + value.String()
}

// Put seals a value.
func (s Secrets) Put(ctx context.Context, workspace, value events.ID, text string) error {
	return s.Vault.Put(ctx, vaultName(workspace, value), []byte(text))
}

// Size returns the total size of values in bytes.
func (s Secrets) Size(ctx context.Context, workspace events.ID, values []events.ID) (int64, error) {
	var names []string
	for _, value := range values {
		names = append(names, vaultName(workspace, value))
	}
	return s.Vault.Size(ctx, names)
}

// Delete deletes a value.
func (s Secrets) Delete(ctx context.Context, workspace, value events.ID) error {
	return s.Vault.Delete(ctx, vaultName(workspace, value))
}

// Reveal returns the values of a workspace's secrets by name. Its error is a [MissingError] if a name
// has no secret, and an [UnreadableError] if a value was altered. If a value is sealed under another
// master key it is neither: the key may come back.
func (s Secrets) Reveal(ctx context.Context, workspace events.ID, names []string) (map[string]string, error) {
	values, missing, err := s.reveal(ctx, workspace, names)
	if err == nil && missing != "" { // its value may just have been replaced
		values, missing, err = s.reveal(ctx, workspace, names)
	}
	if err == nil && missing != "" {
		err = &MissingError{Name: missing}
	}
	if err != nil {
		return nil, err
	}
	return values, nil
}

func (s Secrets) reveal(ctx context.Context, workspace events.ID, names []string) (values map[string]string, missing string, err error) {
	ids, err := s.Values(ctx, workspace)
	if err != nil {
		return nil, "", err
	}
	values = make(map[string]string, len(names))
	for _, name := range names {
		text, ok, err := s.Vault.Get(ctx, vaultName(workspace, ids[name]))
		if errors.Is(err, vault.ErrTampered) {
			err = &UnreadableError{Name: name, Err: err}
		}
		if err != nil || !ok {
			return nil, name, err
		}
		values[name] = string(text)
	}
	return values, "", nil
}
