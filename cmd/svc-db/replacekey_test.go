package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"

	"svc/commands"
	"svc/config"
	"svc/events"
	"svc/events/store"
	"svc/farm/certificate"
	"svc/farm/secrets"
	"svc/projections"
	"svc/projections/farmviews"
	"svc/proof"
	"svc/vault"
)

func ringOf(t *testing.T, keys ...string) vault.Ring {
	t.Helper()
	var list []config.Secret
	for _, key := range keys {
		list = append(list, config.Secret(strings.Repeat(key, 32)))
	}
	ring, err := vault.NewRing(list)
	require.NoError(t, err)
	return ring
}

// proverOf returns the prover of a service with that vault key, which signs the rest.
func proverOf(t *testing.T, db *pgxpool.Pool, key string) *proof.Prover {
	t.Helper()
	p := proof.New(db, ringOf(t, key), "svc.example.com", func(string) bool { return true }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	p.Run(ctx)
	return p
}

// A lostKeyDatabase is a database whose vault key k… is to be lost.
type lostKeyDatabase struct {
	*database
	db        *pgxpool.Pool
	good, bad events.ID
	old       string // verifier key
}

func newLostKeyDatabase(t *testing.T) *lostKeyDatabase {
	t.Helper()
	d := newDatabase(t)
	require.Zero(t, runHere(t, d.environ, "migrate").status)
	db, err := pgxpool.New(t.Context(), d.cfg.ConnString())
	require.NoError(t, err)
	t.Cleanup(db.Close)
	r := &lostKeyDatabase{database: d, db: db, good: d.workspace(t, db, "good"), bad: d.workspace(t, db, "bad")}
	r.old, err = proof.PublicKey(t.Context(), db)
	require.NoError(t, err)
	return r
}

func (r *lostKeyDatabase) replaceKey(t *testing.T, key, verifierKey string) result {
	t.Helper()
	return runHere(t, append(r.environ, "SVC_VAULT_MASTER_KEY="+strings.Repeat(key, 32)), "replace-key", "-verifier-key="+verifierKey)
}

func (r *lostKeyDatabase) count(t *testing.T, sql string) (n int) {
	t.Helper()
	require.NoError(t, r.db.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

// tamper changes the actor of the second record.
func (r *lostKeyDatabase) tamper(t *testing.T, workspace events.ID, from, to string) {
	t.Helper()
	_, err := r.db.Exec(t.Context(), `update events set meta = replace(meta::text, $2, $3)::json where workspace_id = $1 and seq = 2`,
		workspace, from, to)
	require.NoError(t, err)
}

func formerOf(r proof.Report) (list []string) {
	for _, f := range r.Former {
		list = append(list, f.VerifierKey)
	}
	return list
}

// authority returns the certificate of the farm's authority of the good workspace, unsealed with a
// vault key.
func (r *lostKeyDatabase) authority(t *testing.T, key string) string {
	t.Helper()
	secret, text, err := vault.Secrets{DB: r.db, Ring: ringOf(t, key)}.GetOrCreate(t.Context(), certificate.SecretName(r.good),
		func() ([]byte, string, error) {
			return certificate.MakeAuthority(r.good, time.Now())
		})
	require.NoError(t, err)
	_, err = certificate.OpenAuthority(text, secret)
	require.NoError(t, err)
	return text
}

func TestReplaceKeyRefuses(t *testing.T) {
	r := newLostKeyDatabase(t)
	asked := runHere(t, r.environ, "replace-key")
	require.Equal(t, 2, asked.status)
	require.Contains(t, asked.stderr, "replace-key needs -verifier-key")
	asked = runHere(t, r.environ, "replace-key", "-verifier-key="+r.old)
	require.Equal(t, 1, asked.status)
	require.Contains(t, asked.stderr, "replace-key needs SVC_VAULT_MASTER_KEY")

	_, foreign, err := note.GenerateKey(rand.Reader, "svc.example.com")
	require.NoError(t, err)
	for verifierKey, why := range map[string]string{
		r.old:      "the signing key can be opened with SVC_VAULT_MASTER_KEY: nothing has to be replaced",
		"nonsense": "the verifier key is malformed",
		foreign:    "no newest checkpoint is signed by -verifier-key",
	} {
		key := "k"
		if verifierKey == foreign {
			key = "n" // the key is lost, but this is not its public key
		}
		asked = r.replaceKey(t, key, verifierKey)
		require.Equal(t, 1, asked.status)
		require.Contains(t, asked.stderr, why)
	}
	require.Zero(t, r.count(t, `select count(*) from events where kind = 'signing_key.replaced'`))
	require.Equal(t, 1, r.count(t, `select count(*) from vault_secrets`))
	report, err := proverOf(t, r.db, "k").Verify(t.Context(), r.good, "", nil)
	require.NoError(t, err)
	require.Nil(t, report.Bad, "nothing has changed")
}

// After the vault's key is lost for good, logs still verify up to there, contain the replacement,
// and continue.
func TestLostVaultKeyIsReplaced(t *testing.T) {
	r := newLostKeyDatabase(t)
	kept, err := proverOf(t, r.db, "k").Verify(t.Context(), r.good, "", nil)
	require.NoError(t, err)
	_, err = proverOf(t, r.db, "n").Verify(t.Context(), r.good, "", nil)
	require.ErrorIs(t, err, proof.ErrSigningKey)
	former := r.authority(t, "k")

	r.tamper(t, r.bad, "ann@", "eve@")
	asked := r.replaceKey(t, "n", r.old)
	require.Equal(t, 1, asked.status)
	require.Contains(t, asked.stdout, "1 authorities of build farms have a new key")
	require.NotEqual(t, former, r.authority(t, "n"))
	require.Contains(t, asked.stdout, "verifier key of the lost key: "+r.old+"\n")
	require.Contains(t, asked.stdout, r.good.String()+": uses the new key; 3 records are as the lost key signed them, "+
		"0 later ones were not signed\n")
	require.Contains(t, asked.stdout, r.bad.String()+": BAD, not signed with the new key: record 2: the record was changed\n")
	require.Contains(t, asked.stderr, "1 of 2 workspaces; restore them from a backup and run replace-key again")

	p := proverOf(t, r.db, "n")
	for _, since := range []string{"", kept.Checkpoint} {
		report, err := p.Verify(t.Context(), r.good, since, nil)
		require.NoError(t, err)
		require.Nil(t, report.Bad, "what was kept leads on")
		require.EqualValues(t, 4, report.Size, "the event that says so is signed too")
		require.Equal(t, []string{r.old}, formerOf(report))
	}
	report, err := p.Verify(t.Context(), r.bad, "", nil)
	require.NoError(t, err)
	require.Equal(t, &proof.Bad{Seq: 2, Reason: "the record or its stored hash was changed"}, report.Bad)
	require.Empty(t, report.Former, "it was not replaced there")

	// The repaired log continues; a second run does not repeat anything.
	r.tamper(t, r.bad, "eve@", "ann@")
	asked = r.replaceKey(t, "n", r.old)
	require.Zero(t, asked.status, asked.stdout+asked.stderr)
	require.Contains(t, asked.stdout, r.good.String()+": uses the new key already\n")
	require.Contains(t, asked.stdout, r.bad.String()+": uses the new key; 3 records")
	asked = runHere(t, r.environ, "verify")
	require.Zero(t, asked.status, asked.stdout)
	require.Equal(t, 2, strings.Count(asked.stdout, "; up to record 3 signed by "+r.old+", which was lost and replaced in record 4\n"))
	require.Equal(t, 2, r.count(t, `select count(*) from events where kind = 'signing_key.replaced'`))
	asked = r.replaceKey(t, "n", r.old)
	require.Equal(t, 1, asked.status)
	require.Contains(t, asked.stderr, "all logs go on with another one already")

	asked = runHere(t, r.environ, "verify", "-workspace="+r.good.String(), "-verifier-key="+r.old)
	require.Equal(t, 1, asked.status)
	require.Contains(t, asked.stdout, "the newest checkpoint is not signed by this key: record 4 says that it was lost and ")

	// Then the new key is lost as well.
	second, err := proof.PublicKey(t.Context(), r.db)
	require.NoError(t, err)
	asked = r.replaceKey(t, "o", second)
	require.Zero(t, asked.status, asked.stdout+asked.stderr)
	report, err = proverOf(t, r.db, "o").Verify(t.Context(), r.good, kept.Checkpoint, nil)
	require.NoError(t, err)
	require.Nil(t, report.Bad)
	require.Equal(t, []string{second, r.old}, formerOf(report))
}

// Services go on trusting authorities whose key was lost if the verified log has them, and no others.
func TestReplaceKeyKeepsAuthorities(t *testing.T) {
	r := newLostKeyDatabase(t)
	former := r.authority(t, "k")
	log := store.New(r.db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	log.Authenticate(ringOf(t, "k"))
	record := func(text string) {
		t.Helper()
		version := r.count(t, `select count(*) from events where stream = '`+events.AuthorityStream.String()+`'`)
		_, err := log.Append(t.Context(), &events.Commit{
			Workspace: r.good, At: time.Now(), Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "farm"}},
			Writes: []events.Write{{Stream: events.AuthorityStream, Version: version, Events: []events.Event{
				events.AuthorityCreated{Authority: events.NewID(time.Now()), Certificate: text, NotAfter: time.Now()},
			}}},
		})
		require.NoError(t, err)
	}
	kept := func(key, text string) bool {
		t.Helper()
		secret, ok, err := vault.Secrets{DB: r.db, Ring: ringOf(t, key)}.Get(t.Context(), certificate.FormerName(r.good, text))
		require.NoError(t, err)
		return ok && string(secret) == text
	}
	_, forged, err := certificate.MakeAuthority(r.good, time.Now())
	require.NoError(t, err)
	record(former)
	proverOf(t, r.db, "k")
	record("not signed yet")
	_, err = r.db.Exec(t.Context(), `insert into authorities values ($1, gen_random_uuid(), $2, now(), false)`, r.good, forged)
	require.NoError(t, err)
	asked := r.replaceKey(t, "n", r.old)
	require.Zero(t, asked.status, asked.stdout+asked.stderr)
	require.True(t, kept("n", former))
	require.False(t, kept("n", "not signed yet"))
	require.False(t, kept("n", forged))

	// Then the new key is lost as well.
	second, err := proof.PublicKey(t.Context(), r.db)
	require.NoError(t, err)
	asked = r.replaceKey(t, "o", second)
	require.Zero(t, asked.status, asked.stdout+asked.stderr)
	require.True(t, kept("o", former))
}

// An authority whose vault key was removed too early is replaced although the signing key opens, and
// certificates that it issued stay valid.
func TestReplaceKeyReplacesAnAuthorityAlone(t *testing.T) {
	r := newLostKeyDatabase(t)
	former := r.authority(t, "x")
	log := store.New(r.db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	log.Authenticate(ringOf(t, "k"))
	_, err := log.Append(t.Context(), &events.Commit{
		Workspace: r.good, At: time.Now(), Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "farm"}},
		Writes: []events.Write{{Stream: events.AuthorityStream, Events: []events.Event{
			events.AuthorityCreated{Authority: events.NewID(time.Now()), Certificate: former, NotAfter: time.Now()},
		}}},
	})
	require.NoError(t, err)
	proverOf(t, r.db, "k")
	r.tamper(t, r.good, "ann@", "eve@")
	asked := r.replaceKey(t, "k", r.old)
	require.Equal(t, 1, asked.status, "what to trust is read from the log")
	require.Contains(t, asked.stdout, r.good.String()+": BAD, its authority is not replaced: record 2: the record was changed\n")

	r.tamper(t, r.good, "eve@", "ann@")
	asked = r.replaceKey(t, "k", r.old)
	require.Zero(t, asked.status, asked.stdout+asked.stderr)
	require.Contains(t, asked.stdout, "the signing key can be opened and stays\n")
	require.Contains(t, asked.stdout, "1 authorities of build farms have a new key")
	require.NotEqual(t, former, r.authority(t, "k"))
	text, ok, err := vault.Secrets{DB: r.db, Ring: ringOf(t, "k")}.Get(t.Context(), certificate.FormerName(r.good, former))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, former, string(text))
	public, err := proof.PublicKey(t.Context(), r.db)
	require.NoError(t, err)
	require.Equal(t, r.old, public)
	require.Zero(t, r.count(t, `select count(*) from events where kind = 'signing_key.replaced'`))
	asked = r.replaceKey(t, "k", r.old)
	require.Equal(t, 1, asked.status)
	require.Contains(t, asked.stderr, "nothing has to be replaced")
}

// jobSecret sets a secret of jobs of the good workspace under the first of vault keys, and returns its name.
func (r *lostKeyDatabase) jobSecret(t *testing.T, name string, keys ...string) string {
	t.Helper()
	log := store.New(r.db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	value := events.NewID(time.Now())
	err := secrets.Secrets{Vault: vault.Secrets{DB: r.db, Ring: ringOf(t, keys...)}}.Put(t.Context(), r.good, value, "a value")
	require.NoError(t, err)
	version := r.count(t, `select count(*) from events where stream = '`+events.FarmSecretStream.String()+`'`)
	_, err = log.Append(t.Context(), &events.Commit{
		Workspace: r.good, At: time.Now(), Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "farm"}},
		Writes: []events.Write{{Stream: events.FarmSecretStream, Version: version, Events: []events.Event{
			events.FarmSecretSet{Name: name, Value: value},
		}}},
	})
	require.NoError(t, err)
	return name
}

// Everything else that was sealed with the lost key is dropped, and nothing more.
func TestReplaceKeyDropsOtherSealedData(t *testing.T) {
	r := newLostKeyDatabase(t)
	old, ring, ann := ringOf(t, "k"), ringOf(t, "n"), events.NewID(time.Now())
	require.NoError(t, old.Check(t.Context(), r.db))
	require.NoError(t, vault.Tokens{DB: r.db, Ring: old}.Put(t.Context(), ann, "github", "a token"))
	log := store.New(r.db, nil, func(events.ID, int64) {})
	defer log.Close()
	log.EnableSnapshots(old, slog.New(slog.DiscardHandler))
	require.NoError(t, log.SaveSnapshot(t.Context(), r.good, r.good, events.Snapshot{Form: 1, Version: 1, Seq: 1, State: []byte(`{}`)}))
	_, err := proverOf(t, r.db, "k").Verify(t.Context(), r.good, "", nil)
	require.NoError(t, err)
	require.Equal(t, 1, r.count(t, `select count(*) from verifications`))
	used, kept := r.jobSecret(t, "USED", "k"), r.jobSecret(t, "KEPT", "n", "k")
	require.ErrorIs(t, ring.Check(t.Context(), r.db), vault.ErrKeyChanged)
	accounts := r.count(t, `select count(*) from service_tokens`)

	asked := r.replaceKey(t, "n", r.old)
	require.Zero(t, asked.status, asked.stdout+asked.stderr)
	require.Contains(t, asked.stdout, "1 tokens of people at their code host were dropped")
	require.NoError(t, ring.Check(t.Context(), r.db), "a service that starts finds nothing wrong")
	require.Contains(t, asked.stdout, "1 values of secrets of jobs were dropped")
	_, ok, err := vault.Tokens{DB: r.db, Ring: ring}.Get(t.Context(), ann, "github")
	require.NoError(t, err)
	require.False(t, ok)
	jobs := secrets.Secrets{Vault: vault.Secrets{DB: r.db, Ring: ring}, Values: commands.New(log, time.Now).FarmSecretValues}
	_, err = jobs.Reveal(t.Context(), r.good, []string{used})
	var lost *secrets.UnreadableError
	require.ErrorAs(t, err, &lost, "a job that uses it is cancelled")
	values, err := jobs.Reveal(t.Context(), r.good, []string{kept})
	require.NoError(t, err)
	require.Equal(t, map[string]string{kept: "a value"}, values)
	listed, err := farmviews.FarmSecrets{DB: r.db}.List(t.Context(), r.good)
	require.NoError(t, err)
	require.Len(t, listed, 2, "people see what to set again")
	require.Zero(t, r.count(t, `select count(*) from snapshots`), "made anew from the log")
	require.Zero(t, r.count(t, `select count(*) from verifications`), "the next one is stored")
	require.Equal(t, accounts, r.count(t, `select count(*) from service_tokens`), "fingerprints need no key")
}
