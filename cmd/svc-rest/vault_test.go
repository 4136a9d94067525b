package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/events"
	"svc/integrity"
	"svc/proof"
	"svc/test/pgtest"
	"svc/vault"
)

// A sealedToken is a token that is sealed in a database with some key.
type sealedToken struct {
	t       *testing.T
	db      *pgxpool.Pool
	user    events.ID
	environ string // leads svc-rest to the database
}

// opens reports whether the token can be unsealed with keys and is unchanged.
func (s *sealedToken) opens(keys ...config.Secret) bool {
	s.t.Helper()
	token, ok, err := s.tokens(keys...).Get(s.t.Context(), s.user, "github")
	if err != nil {
		require.ErrorIs(s.t, err, vault.ErrKeyChanged)
		return false
	}
	require.True(s.t, ok)
	require.Equal(s.t, config.Secret("marker-of-the-token"), token)
	return true
}

func (s *sealedToken) tokens(keys ...config.Secret) vault.Tokens {
	s.t.Helper()
	ring, err := vault.NewRing(keys)
	require.NoError(s.t, err)
	return vault.Tokens{DB: s.db, Ring: ring}
}

// newSealedToken has run svc-rest with the older key.
func newSealedToken(t *testing.T) *sealedToken {
	t.Helper()
	url := pgtest.URL(t)
	db, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	s := &sealedToken{t: t, db: db, user: events.NewID(time.Now()), environ: "SVC_DATABASE_URL=" + url}
	r := start(t, s.environ)
	require.Eventually(t, func() bool {
		rows, _ := db.Query(t.Context(), `select count(*) from vault_checks`)
		count, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		return err == nil && count == 1
	}, testTimeout, 5*time.Millisecond, "the first start remembers its key")
	require.NotContains(t, r.stop(), "level=ERROR msg=\"stored")
	require.NoError(t, s.tokens(olderKey).Put(t.Context(), s.user, "github", "marker-of-the-token"))
	return s
}

func TestChangedMasterKeyIsReportedAndServiceRuns(t *testing.T) {
	t.Parallel()
	s := newSealedToken(t)
	r := start(t, s.environ, "SVC_VAULT_MASTER_KEY="+newerKey)
	line := r.until("stored credentials cannot be opened")
	require.Contains(t, line, "level=ERROR")
	require.Contains(t, line, "SVC_VAULT_MASTER_KEY has changed: restore the previous value, or list it after the new one (new,previous)")
	require.Equal(t, http.StatusOK, r.statusOf("/health/live"))
	require.Equal(t, http.StatusOK, r.statusOf("/api/auth/get-session"))
	r.stop()
	require.True(t, s.opens(olderKey), "nothing is lost")

	// With the previous key everything is as before.
	require.NoError(t, s.tokens(olderKey).Ring.Check(t.Context(), s.db))
}

func TestKeyRotationKeepsTokensReadable(t *testing.T) {
	t.Parallel()
	s := newSealedToken(t)
	require.False(t, s.opens(newerKey))
	r := start(t, s.environ, "SVC_VAULT_MASTER_KEY="+newerKey+","+olderKey)
	require.Contains(t, r.until("resealed credentials"), "Resealed:1")
	require.NotContains(t, r.stop(), "cannot be opened")
	require.True(t, s.opens(newerKey, olderKey))

	// Now the previous key can be removed: nothing is sealed with it.
	require.True(t, s.opens(newerKey))
	require.False(t, s.opens(olderKey))
	require.NoError(t, s.tokens(newerKey).Ring.Check(t.Context(), s.db))
}

// A checkedVault is a vault that is checked in the background.
type checkedVault struct {
	t    *testing.T
	db   *pgxpool.Pool
	down atomic.Bool // whether the database refuses connections
	log  *bufio.Scanner
}

// newCheckedVault returns a vault whose first user's token is sealed with the older key. Its check
// begins with start.
func newCheckedVault(t *testing.T) *checkedVault {
	t.Helper()
	v := &checkedVault{t: t}
	cfg, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if v.down.Load() {
			return nil, errors.New("the database is down")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	v.db, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(v.db.Close)
	v.put("github", olderKey)
	return v
}

var vaultUser = events.NewID(time.Now())

func (v *checkedVault) put(provider string, keys ...config.Secret) {
	v.t.Helper()
	ring, err := vault.NewRing(keys)
	require.NoError(v.t, err)
	require.NoError(v.t, vault.Tokens{DB: v.db, Ring: ring}.Put(v.t.Context(), vaultUser, provider, "a token"))
}

func (v *checkedVault) start(keys ...config.Secret) {
	ring, err := vault.NewRing(keys)
	require.NoError(v.t, err)
	lines, writer := io.Pipe()
	v.log = bufio.NewScanner(lines)
	ctx, stop := context.WithCancel(v.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer writer.Close()
		vaultCheck{ring, vault.NewGate(ring, v.db), v.db, slog.New(slog.NewTextHandler(writer, nil)), time.Millisecond}.run(ctx)
	}()
	v.t.Cleanup(func() {
		stop()
		_ = lines.Close()
		<-done
	})
}

// until returns the lines up to one that contains text.
func (v *checkedVault) until(text string) string {
	v.t.Helper()
	var seen strings.Builder
	for v.log.Scan() {
		seen.WriteString(v.log.Text() + "\n")
		if strings.Contains(v.log.Text(), text) {
			return seen.String()
		}
	}
	require.FailNow(v.t, "not said: "+text, seen.String())
	return ""
}

func TestVaultIsRotatedOnceTheDatabaseIsUp(t *testing.T) {
	t.Parallel()
	v := newCheckedVault(t)
	v.db.Reset() // closes its connections
	v.down.Store(true)
	v.start(newerKey, olderKey)
	text := v.until("the vault is not checked yet")
	require.Contains(t, text, "the database is down")
	v.down.Store(false)
	text = v.until("resealed credentials")
	require.NotContains(t, text, "cannot be opened")
	require.Contains(t, v.until("nothing is sealed with an earlier key"), "level=INFO")
	require.False(t, v.log.Scan(), "it ends")
}

// What the background checks have stored stays readable without the earlier key.
func TestStoredChecksOutliveARotation(t *testing.T) {
	t.Parallel()
	v := newCheckedVault(t)
	workspace := events.NewID(time.Now())
	leads := func(string) bool { return true }
	process := func(key config.Secret) *proof.Prover {
		ring, err := vault.NewRing([]config.Secret{key})
		require.NoError(t, err)
		log := slog.New(slog.DiscardHandler)
		prover := proof.New(v.db, ring, "svc.example.com", leads, log)
		before, row := "", `select coalesce(min(count::text), '') from comparison_progress`
		require.NoError(t, v.db.QueryRow(t.Context(), row).Scan(&before))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			integrity.New(v.db, prover, leads, time.Millisecond, log).Run(ctx)
		}()
		require.Eventually(t, func() bool {
			now := ""
			return v.db.QueryRow(t.Context(), row).Scan(&now) == nil && now != before
		}, testTimeout, 5*time.Millisecond)
		stop()
		<-done
		return prover
	}
	prover := process(olderKey)
	want, err := prover.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	v.start(newerKey, olderKey)
	v.until("nothing is sealed with an earlier key")

	prover = process(newerKey)
	got, ok, err := prover.Last(t.Context(), workspace)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)
}

// What no key opens is named, and the check ends: it would never be done.
func TestValuesThatCannotBeOpenedAreNamed(t *testing.T) {
	t.Parallel()
	const otherKey = "marker-of-another-key-of-the-vault-"
	v := newCheckedVault(t)
	other, err := vault.NewRing([]config.Secret{otherKey})
	require.NoError(t, err)
	secret := func() ([]byte, string, error) { return []byte("a secret"), "", nil }
	_, _, err = vault.Secrets{DB: v.db, Ring: other}.GetOrCreate(t.Context(), "farm_secret/1", secret)
	require.NoError(t, err)
	v.put("gitlab", olderKey)
	_, err = v.db.Exec(t.Context(), `
		update provider_tokens set sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1) where provider = 'gitlab'`)
	require.NoError(t, err)
	v.start(newerKey, olderKey)
	text := v.until("some values cannot be opened")
	require.Contains(t, text, "Resealed:1")
	require.Contains(t, text, "level=ERROR")
	require.Contains(t, text, "unknown_key=1 altered=1 values=\"[provider_tokens/"+vaultUser.String()+"/gitlab vault_secrets/farm_secret/1]\"")
	require.False(t, v.log.Scan(), "it ends")
}

// What is sealed with an earlier key meanwhile, by another replica, is checked again.
func TestWhatIsLeftUnderEarlierKeysIsReported(t *testing.T) {
	t.Parallel()
	v := newCheckedVault(t)
	_, err := v.db.Exec(t.Context(), `
		create function leave() returns trigger language plpgsql as 'begin return null; end';
		create trigger leave before update on provider_tokens for each row execute function leave()`)
	require.NoError(t, err)
	v.start(newerKey, olderKey)
	text := v.until("left=1 unknown_key=0 altered=0")
	require.Contains(t, text, "level=WARN")
	require.Contains(t, text, "remove none from SVC_VAULT_MASTER_KEY")
	_, err = v.db.Exec(t.Context(), `drop trigger leave on provider_tokens`)
	require.NoError(t, err)
	v.until("Resealed:1")
	v.until("nothing is sealed with an earlier key")
}
