// Package credentials stores and reveals the tokens by which the service and build machines reach repositories at
// code hosts. A token is sealed in the vault under an id that an event of the repository's stream names, so that
// somebody who can write to the database alone cannot swap tokens.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/input"
	"svc/vault"
)

// VaultPrefix begins the names of the values in the vault.
const VaultPrefix = "repo_credential/"

// User is the user's name to send with a token where a name and a password are needed. Hosts ignore it.
const User = "x-access-token"

// MaxBytes bounds a token.
const MaxBytes = 4 << 10

// ErrUnreadable reports that a token is lost: it can never be decrypted again, or is gone.
var ErrUnreadable = errors.New("the credential cannot be opened: replace it")

// A Store has the tokens of all workspaces. Its methods may be called concurrently.
type Store struct {
	Vault vault.Secrets

	// Repo returns a repository as the log says, as [svc/commands.Handler.Repo] does.
	Repo func(ctx context.Context, workspace, id events.ID) (aggregates.Repo, error)
}

// Check returns an error about the named field unless text can be a token.
func Check(field, text string) error {
	switch {
	case text == "" || len(text) > MaxBytes:
		return fault.Field(field, "must have 1 byte to 4 KiB")
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return fault.Field(field, "must not hold spaces, line breaks and control characters")
	}
	return input.NoTokens(map[string]string{field: text})
}

func vaultName(workspace, value events.ID) string {
	return VaultPrefix + workspace.String() + "/" + value.String()
}

// Put seals a token.
func (s Store) Put(ctx context.Context, workspace, value events.ID, text string) error {
	return s.Vault.Put(ctx, vaultName(workspace, value), []byte(text))
}

// Delete deletes a token.
func (s Store) Delete(ctx context.Context, workspace, value events.ID) error {
	return s.Vault.Delete(ctx, vaultName(workspace, value))
}

// revealRounds is how often Reveal looks up a token that was replaced before it could read it.
const revealRounds = 10

// Reveal returns a repository as the log says and one of its tokens, which is empty if it has none. Its error is
// [ErrUnreadable] if the token was altered or is gone. After other errors it may succeed later.
func (s Store) Reveal(
	ctx context.Context, workspace, id events.ID, kind events.CredentialKind,
) (repo aggregates.Repo, token string, err error) {
	return s.reveal(ctx, workspace, id, string(kind)+" credential", func(r *aggregates.Repo) events.ID { return r.Credential(kind) })
}

// RevealHook is like Reveal, for the secret of the repository's hook.
func (s Store) RevealHook(ctx context.Context, workspace, id events.ID) (repo aggregates.Repo, secret string, err error) {
	return s.reveal(ctx, workspace, id, "hook's secret", (*aggregates.Repo).Hook)
}

func (s Store) reveal(
	ctx context.Context, workspace, id events.ID, what string, valueOf func(*aggregates.Repo) events.ID,
) (repo aggregates.Repo, token string, err error) {
	var absent events.ID // which the vault does not have
	for range revealRounds {
		if repo, err = s.Repo(ctx, workspace, id); err != nil {
			return repo, "", err
		}
		value := valueOf(&repo)
		if value.IsZero() || !repo.Connected() {
			return repo, "", nil
		}
		text, found, err := s.Vault.Get(ctx, vaultName(workspace, value))
		switch {
		case errors.Is(err, vault.ErrTampered):
			return repo, "", fmt.Errorf("%w: %w", ErrUnreadable, err)
		case err != nil:
			return repo, "", fmt.Errorf("open the %s of repository %s: %w", what, id, err)
		case found:
			return repo, string(text), nil
		case value == absent: // so it was not replaced
			return repo, "", fmt.Errorf("%w: its value is not in the vault", ErrUnreadable)
		}
		absent = value
	}
	return repo, "", fmt.Errorf("open the %s of repository %s: it is replaced all the time", what, id)
}
