package credentials_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/commands/bearer"
	"svc/config"
	"svc/credentials"
	"svc/events"
	"svc/events/store"
	"svc/fault"
	"svc/projections"
	"svc/test/pgtest"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const token = "ghp_a-token-that-nobody-may-see"

// A keeper connects repositories as the API does.
type keeper struct {
	credentials.Store
	db       *pgxpool.Pool
	commands *commands.Handler
	by       commands.Meta
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	db := pgtest.New(t)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	h := commands.New(log, time.Now)
	return &keeper{
		credentials.Store{Vault: vault.Secrets{DB: db, Ring: ringOf(t, "the-key-that-the-database-does-not-have")}, Repo: h.Repo}, db, h,
		commands.Meta{Workspace: events.NewID(time.Now()), Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem}}},
	}
}

func ringOf(t *testing.T, keys ...config.Secret) vault.Ring {
	t.Helper()
	ring, err := vault.NewRing(keys)
	require.NoError(t, err)
	return ring
}

// connect connects a repository with one token for all purposes.
func (k *keeper) connect(t *testing.T, name, text string) commands.ConnectRepo {
	t.Helper()
	value := events.NewID(time.Now())
	require.NoError(t, k.Put(t.Context(), k.by.Workspace, value, text))
	c := commands.ConnectRepo{
		Meta: k.by, Repo: events.NewID(time.Now()), Name: name, Credential: value, ReadCredential: value,
		Host:     events.RepoHost{Kind: events.HostGit, Clone: "https://git.acme.example/" + name + ".git"},
		Settings: events.RepoSettings{Branch: "main"},
	}
	_, err := k.commands.ConnectRepo(t.Context(), c)
	require.NoError(t, err)
	return c
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", token, strings.Repeat("x", credentials.MaxBytes), "ä-token%20:@/"} {
		require.NoError(t, credentials.Check("credential", text))
	}
	for _, text := range []string{"", "a b", "a\n", "a\tb", "a\u00a0b", "a\x00", "a\x7f", "\xff", strings.Repeat("x", credentials.MaxBytes+1),
		string(bearer.NewServiceToken().Reveal())} {
		err := credentials.Check("credential", text)
		require.ErrorIs(t, err, fault.ErrValidation, "%q", text)
		require.Contains(t, fault.As(err).Details, "credential")
		require.True(t, text == "" || !strings.Contains(err.Error(), text))
	}
}

// A token is the one that the log names, until the repository is disconnected.
func TestReveal(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	ctx, here := t.Context(), k.by.Workspace
	web := k.connect(t, "acme/web", token)
	repo, got, err := k.Reveal(ctx, here, web.Repo, events.WriteCredential)
	require.NoError(t, err)
	require.Equal(t, token, got)
	require.Equal(t, "acme/web", repo.Name())

	_, _, err = k.commands.ReplaceRepoCredential(ctx, commands.ReplaceRepoCredential{Meta: k.by, Repo: web.Repo, Which: events.ReadCredential})
	require.NoError(t, err)
	repo, got, err = k.Reveal(ctx, here, web.Repo, events.ReadCredential)
	require.NoError(t, err)
	require.Empty(t, got)
	require.True(t, repo.Connected())

	repo, got, err = k.Reveal(ctx, events.NewID(time.Now()), web.Repo, events.WriteCredential)
	require.NoError(t, err)
	require.Empty(t, got, "in another workspace")
	require.False(t, repo.Known())

	require.NoError(t, k.Delete(ctx, here, web.Credential))
	_, _, err = k.Reveal(ctx, here, web.Repo, events.WriteCredential)
	require.ErrorIs(t, err, credentials.ErrUnreadable)
	_, _, err = k.commands.DisconnectRepo(ctx, commands.DisconnectRepo{Meta: k.by, Repo: web.Repo, Name: "acme/web"})
	require.NoError(t, err)
	repo, got, err = k.Reveal(ctx, here, web.Repo, events.WriteCredential)
	require.NoError(t, err)
	require.Empty(t, got)
	require.False(t, repo.Connected())
}

// A token that is replaced while it is looked up is the new one.
func TestReplacedCredentialIsNotLost(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	ctx, here := t.Context(), k.by.Workspace
	web := k.connect(t, "acme/web", token)
	during, n := k.Store, 0
	during.Repo = func(ctx context.Context, workspace, id events.ID) (aggregates.Repo, error) {
		repo, err := k.Repo(ctx, workspace, id)
		if n++; n <= 3 {
			value := events.NewID(time.Now())
			require.NoError(t, k.Put(ctx, here, value, token+"-2"))
			_, former, err := k.commands.ReplaceRepoCredential(ctx, commands.ReplaceRepoCredential{
				Meta: k.by, Repo: web.Repo, Which: events.WriteCredential, Value: value,
			})
			require.NoError(t, err)
			require.NoError(t, k.Delete(ctx, here, former))
		}
		return repo, err
	}
	_, got, err := during.Reveal(ctx, here, web.Repo, events.WriteCredential)
	require.NoError(t, err)
	require.Equal(t, token+"-2", got)
}

// A token is only in the vault, sealed, cannot be swapped with another by SQL, and stays readable when the master
// key is rotated.
func TestCredentialsAreSealed(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	ctx, here := t.Context(), k.by.Workspace
	web := k.connect(t, "acme/web", token)
	k.connect(t, "acme/api", "another-token")
	for _, table := range []string{"events", "vault_secrets"} {
		var n int
		require.NoError(t, k.db.QueryRow(ctx, `
			select count(*) from `+table+` t where strpos(t::text, $1) > 0 or strpos(t::text, encode($1::bytea, 'hex')) > 0`, token).Scan(&n))
		require.Zero(t, n, table)
	}
	const first, second = "the-key-that-the-database-does-not-have", "another-key-that-the-database-lacks"
	done, err := vault.Rotate(ctx, k.db, ringOf(t, second, first))
	require.NoError(t, err)
	require.Equal(t, 2, done.Resealed)
	_, _, err = k.Reveal(ctx, here, web.Repo, events.WriteCredential)
	require.ErrorIs(t, err, vault.ErrKeyChanged)
	require.NotErrorIs(t, err, credentials.ErrUnreadable, "the key may come back")
	k.Vault.Ring = ringOf(t, second)
	_, got, err := k.Reveal(ctx, here, web.Repo, events.WriteCredential)
	require.NoError(t, err)
	require.Equal(t, token, got)

	_, err = k.db.Exec(ctx, `update vault_secrets t set sealed = (select o.sealed from vault_secrets o where o.name <> t.name)`)
	require.NoError(t, err)
	_, _, err = k.Reveal(ctx, here, web.Repo, events.WriteCredential)
	require.ErrorIs(t, err, credentials.ErrUnreadable)
	require.NotContains(t, err.Error(), token)
}
