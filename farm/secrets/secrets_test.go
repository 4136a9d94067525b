package secrets_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/farm/secrets"
	"svc/projections"
	"svc/test/pgtest"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A secretKeeper sets secrets as the API does.
type secretKeeper struct {
	secrets.Secrets
	commands *commands.Handler
	by       commands.Meta
}

func newSecretKeeper(t *testing.T, db *pgxpool.Pool, slug string) *secretKeeper {
	t.Helper()
	ring, err := vault.NewRing([]config.Secret{"the-key-that-the-database-does-not-have"})
	require.NoError(t, err)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	now, handler := time.Now(), commands.New(log, time.Now)
	k := &secretKeeper{secrets.Secrets{Vault: vault.Secrets{DB: db, Ring: ring}, Values: handler.FarmSecretValues},
		handler, commands.Meta{
			Workspace: events.NewID(now),
			Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: events.NewID(now), Name: "ada@acme.example"},
				Origin: events.FromAPI},
		}}
	_, err = k.commands.CreateWorkspace(t.Context(), commands.CreateWorkspace{
		Meta: k.by, Name: slug, Slug: slug, Member: events.NewID(now), Email: k.by.Actor.Name, Person: "Ada",
	})
	require.NoError(t, err)
	return k
}

func (k *secretKeeper) set(t *testing.T, name, text string) (former events.ID) {
	t.Helper()
	value := events.NewID(time.Now())
	require.NoError(t, k.Put(t.Context(), k.by.Workspace, value, text))
	_, former, err := k.commands.SetFarmSecret(t.Context(), commands.SetFarmSecret{Meta: k.by, Name: name, Value: value})
	require.NoError(t, err)
	return former
}

// A job receives the current values of its workspace's secrets, and no others.
func TestJobSecrets(t *testing.T) {
	db := pgtest.New(t)
	acme, globex := newSecretKeeper(t, db, "acme"), newSecretKeeper(t, db, "globex")
	ctx, here := t.Context(), acme.by.Workspace
	missing := func(err error, name string) {
		t.Helper()
		var lacks *secrets.MissingError
		require.ErrorAs(t, err, &lacks)
		require.Equal(t, name, lacks.Name)
	}
	require.True(t, acme.set(t, "NPM_TOKEN", "first-value-of-the-secret").IsZero())
	former := acme.set(t, "NPM_TOKEN", "line one\nline two")
	require.False(t, former.IsZero())
	require.NoError(t, acme.Delete(ctx, here, former))
	acme.set(t, "EMPTY_ISH", " ")
	got, err := acme.Reveal(ctx, here, []string{"NPM_TOKEN", "EMPTY_ISH"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"NPM_TOKEN": "line one\nline two", "EMPTY_ISH": " "}, got)
	values, err := acme.Values(ctx, here)
	require.NoError(t, err)
	size, err := acme.Size(ctx, here, []events.ID{values["NPM_TOKEN"], values["EMPTY_ISH"], events.NewID(time.Now())})
	require.NoError(t, err)
	require.EqualValues(t, len("line one\nline two")+1, size)
	size, err = acme.Size(ctx, here, nil)
	require.NoError(t, err)
	require.Zero(t, size)
	got, err = acme.Reveal(ctx, here, nil)
	require.NoError(t, err)
	require.Empty(t, got)

	_, err = globex.Reveal(ctx, globex.by.Workspace, []string{"NPM_TOKEN"})
	missing(err, "NPM_TOKEN")
	_, err = acme.Reveal(ctx, here, []string{"NPM_TOKEN", "OTHER"})
	missing(err, "OTHER")
	stranger := commands.RemoveFarmSecret{Meta: globex.by, Name: "NPM_TOKEN"}
	stranger.Workspace = here
	_, _, err = acme.commands.RemoveFarmSecret(ctx, stranger)
	require.Error(t, err)

	_, removed, err := acme.commands.RemoveFarmSecret(ctx, commands.RemoveFarmSecret{Meta: acme.by, Name: "NPM_TOKEN"})
	require.NoError(t, err)
	require.False(t, removed.IsZero())
	_, err = acme.Reveal(ctx, here, []string{"NPM_TOKEN"})
	missing(err, "NPM_TOKEN")
	_, _, err = acme.commands.RemoveFarmSecret(ctx, commands.RemoveFarmSecret{Meta: acme.by, Name: "NPM_TOKEN"})
	require.ErrorIs(t, err, farm.ErrNoFarmSecret)
}

// A job receives values that are replaced while they are looked up. If that goes on, the error does not
// say that they are missing, which would cancel the job.
func TestReplacedSecretsAreNotMissing(t *testing.T) {
	db := pgtest.New(t)
	acme := newSecretKeeper(t, db, "acme")
	names := []string{"NPM_TOKEN", "DEPLOY_KEY", "LAST"}
	for _, name := range names {
		acme.set(t, name, name+" 0")
	}
	replacing := func(changes int) secrets.Secrets {
		during, n := acme.Secrets, 0
		during.Values = func(ctx context.Context, workspace events.ID) (map[string]events.ID, error) {
			ids, err := acme.Values(ctx, workspace)
			if n++; n <= changes {
				for _, name := range names[:2] {
					require.NoError(t, acme.Delete(ctx, workspace, acme.set(t, name, fmt.Sprint(name, " ", n))))
				}
			}
			return ids, err
		}
		return during
	}
	got, err := replacing(3).Reveal(t.Context(), acme.by.Workspace, names)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"NPM_TOKEN": "NPM_TOKEN 3", "DEPLOY_KEY": "DEPLOY_KEY 3", "LAST": "LAST 0"}, got)

	_, err = replacing(1000).Reveal(t.Context(), acme.by.Workspace, names)
	require.ErrorContains(t, err, "2 are replaced all the time")
	var missing *secrets.MissingError
	require.False(t, errors.As(err, &missing))
	var lost *secrets.UnreadableError
	require.False(t, errors.As(err, &lost))
}

// A value that was deleted although its secret was not is lost.
func TestDeletedJobSecretIsUnreadable(t *testing.T) {
	db := pgtest.New(t)
	acme := newSecretKeeper(t, db, "acme")
	acme.set(t, "NPM_TOKEN", "a-value-that-nobody-may-see")
	values, err := acme.Values(t.Context(), acme.by.Workspace)
	require.NoError(t, err)
	require.NoError(t, acme.Delete(t.Context(), acme.by.Workspace, values["NPM_TOKEN"]))
	_, err = acme.Reveal(t.Context(), acme.by.Workspace, []string{"NPM_TOKEN"})
	var lost *secrets.UnreadableError
	require.ErrorAs(t, err, &lost)
	require.EqualError(t, lost.Err, "its value is not in the vault")
}

// A tampered value and a missing key are different errors.
func TestUnreadableJobSecrets(t *testing.T) {
	db := pgtest.New(t)
	acme := newSecretKeeper(t, db, "acme")
	acme.set(t, "NPM_TOKEN", "a-value-that-nobody-may-see")
	other, err := vault.NewRing([]config.Secret{"another-key-that-the-database-lacks"})
	require.NoError(t, err)
	elsewhere := acme.Secrets
	elsewhere.Vault.Ring = other
	_, err = elsewhere.Reveal(t.Context(), acme.by.Workspace, []string{"NPM_TOKEN"})
	require.ErrorIs(t, err, vault.ErrKeyChanged)
	var spoilt *secrets.UnreadableError
	require.False(t, errors.As(err, &spoilt))
	_, err = db.Exec(t.Context(), `update vault_secrets set sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1)`)
	require.NoError(t, err)
	_, err = acme.Reveal(t.Context(), acme.by.Workspace, []string{"NPM_TOKEN"})
	require.ErrorAs(t, err, &spoilt)
	require.ErrorIs(t, err, vault.ErrTampered)
	require.Equal(t, "the secret NPM_TOKEN cannot be opened: set it again", spoilt.Error())
}

// Somebody who can write to the database, but has no vault key, cannot have a job given another secret than
// the one that it names.
func TestJobSecretsCannotBeSwapped(t *testing.T) {
	db := pgtest.New(t)
	acme := newSecretKeeper(t, db, "acme")
	acme.set(t, "NPM_TOKEN", "the-token-of-npm")
	acme.set(t, "DEPLOY_KEY", "the-key-of-production")
	change := func(sql string) {
		t.Helper()
		tag, err := db.Exec(t.Context(), sql)
		require.NoError(t, err)
		require.Positive(t, tag.RowsAffected())
	}
	const other = `(select o.%[1]s from %[2]s o where o.%[3]s <> t.%[3]s)`
	change(`update farm_secrets t set value_id = ` + fmt.Sprintf(other, "value_id", "farm_secrets", "name"))
	got, err := acme.Reveal(t.Context(), acme.by.Workspace, []string{"NPM_TOKEN", "DEPLOY_KEY"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"NPM_TOKEN": "the-token-of-npm", "DEPLOY_KEY": "the-key-of-production"}, got)
	change(`insert into farm_secrets select workspace_id, 'MINE', value_id, set_by, set_at from farm_secrets where name = 'NPM_TOKEN'`)
	_, err = acme.Reveal(t.Context(), acme.by.Workspace, []string{"MINE"})
	var missing *secrets.MissingError
	require.ErrorAs(t, err, &missing)

	change(`update vault_secrets t set sealed = ` + fmt.Sprintf(other, "sealed", "vault_secrets", "name"))
	_, err = acme.Reveal(t.Context(), acme.by.Workspace, []string{"NPM_TOKEN"})
	require.ErrorIs(t, err, vault.ErrTampered)
}

// A value exists only in the vault, sealed, and stays readable when the master key is rotated.
func TestJobSecretsAreSealed(t *testing.T) {
	db := pgtest.New(t)
	acme := newSecretKeeper(t, db, "acme")
	const text = "a-value-that-nobody-may-see"
	acme.set(t, "NPM_TOKEN", text)
	for _, table := range []string{"events", "farm_secrets", "vault_secrets"} {
		var n int
		require.NoError(t, db.QueryRow(t.Context(), fmt.Sprintf(`
			select count(*) from %[1]s t where strpos(t::text, $1) > 0 or strpos(t::text, encode($1::bytea, 'hex')) > 0`, table), text).Scan(&n))
		require.Zero(t, n, table)
	}
	newer, err := vault.NewRing([]config.Secret{"another-key-that-the-database-lacks", "the-key-that-the-database-does-not-have"})
	require.NoError(t, err)
	done, err := vault.Rotate(context.WithoutCancel(t.Context()), db, newer)
	require.NoError(t, err)
	require.Equal(t, 1, done.Resealed)
	only, err := vault.NewRing([]config.Secret{"another-key-that-the-database-lacks"})
	require.NoError(t, err)
	acme.Vault.Ring = only
	got, err := acme.Reveal(t.Context(), acme.by.Workspace, []string{"NPM_TOKEN"})
	require.NoError(t, err)
	require.Equal(t, text, got["NPM_TOKEN"])
}
