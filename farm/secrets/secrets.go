// Package secrets stores and reveals the secret values that jobs use. A value is sealed in the vault
// under an id that an event of its workspace contains, with its name.
package secrets

import (
	"context"
	"errors"
	"fmt"

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

// An UnreadableError reports that the value of a secret is lost: it can never be decrypted again, or was
// deleted although the secret was not. Err has the reason, for operators.
type UnreadableError struct {
	Name string
	Err  error
}

func (e *UnreadableError) Error() string {
	return "the secret " + e.Name + " cannot be opened: set it again"
}
func (e *UnreadableError) Unwrap() error { return e.Err }

var errNoValue = errors.New("its value is not in the vault")

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

// revealRounds is how often Reveal looks up the values that were replaced before it could read them.
const revealRounds = 10

// Reveal returns the values of a workspace's secrets by name. A value that is replaced meanwhile is the
// former or the new one. Its error is a [MissingError] if a name has no secret, and an [UnreadableError]
// if a value was altered or is gone. After other errors it may succeed later: if a value is sealed under
// another master key, the key may come back.
func (s Secrets) Reveal(ctx context.Context, workspace events.ID, names []string) (map[string]string, error) {
	values := make(map[string]string, len(names))
	var absent map[string]events.ID // those that the vault does not have
	for range revealRounds {
		ids, err := s.Values(ctx, workspace)
		if err != nil {
			return nil, err
		}
		before := absent
		absent = map[string]events.ID{}
		for _, name := range names {
			if _, known := values[name]; known {
				continue
			}
			id, exists := ids[name]
			if !exists {
				return nil, &MissingError{Name: name}
			}
			text, found, err := s.open(ctx, workspace, name, id)
			switch {
			case err != nil:
				return nil, err
			case found:
				values[name] = text
			case before[name] == id: // so it was not replaced
				return nil, &UnreadableError{Name: name, Err: errNoValue}
			default:
				absent[name] = id
			}
		}
		if len(absent) == 0 {
			return values, nil
		}
	}
	return nil, fmt.Errorf("reveal secrets of %s: %d are replaced all the time", workspace, len(absent))
}

func (s Secrets) open(ctx context.Context, workspace events.ID, name string, value events.ID) (text string, found bool, err error) {
	opened, found, err := s.Vault.Get(ctx, vaultName(workspace, value))
	if errors.Is(err, vault.ErrTampered) {
		err = &UnreadableError{Name: name, Err: err}
	}
	return string(opened), found, err
}
