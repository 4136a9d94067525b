package auth_test

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/config"
	"svc/vault"
)

// A planted cookie does not become the session of the next sign-in.
func TestPlantedSessionIsNotReused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	planted := s.signIn()
	for name, value := range map[string]string{
		"another person's": planted.Value, "one that was made up": "made-up", "an empty one": "",
		"a state's": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
	} {
		t.Run(name, func(t *testing.T) {
			b := s.browser()
			b.plant(sessionCookie, value)
			b.signIn(h).requireSentTo("/")
			require.NotEqual(t, value, b.cookies()[sessionCookie])
			require.Equal(t, "ada@acme.example", b.session()["user"]["email"])
			require.Equal(t, s.person.String(), s.session(planted)["user"]["id"])
		})
	}
}

func TestEverySignInCreatesSession(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	b := s.browser()
	b.signIn(h).requireSentTo("/")
	cookie, first := b.cookies()[sessionCookie], b.session()["session"]
	b.signIn(h).requireSentTo("/")
	require.NotEqual(t, cookie, b.cookies()[sessionCookie])
	require.NotEqual(t, first["id"], b.session()["session"]["id"])
}

// Another AUTH_SECRET ends all sessions and changes nothing else.
func TestChangedSecretEndsSessions(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	b := s.browser()
	b.signIn(h).requireSentTo("/")
	user := b.user()
	later := s.withSecret("another secret of thirty-two chars")
	cookie := &http.Cookie{Name: sessionCookie, Value: b.cookies()[sessionCookie]}
	a := later.do(call{path: "/get-session", cookie: cookie})
	require.Equal(t, "null\n", a.text)
	requireCookieCleared(t, a)
	require.NotNil(t, s.session(cookie), "only the secret has changed")

	again := &browser{later, later.browser().http}
	again.signIn(h).requireSentTo("/")
	require.Equal(t, user, again.user())
}

// A request with an Authorization header has no session, whatever its cookie.
func TestAuthRoutesIgnoreAuthorizationHeader(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cookie := s.signIn()
	value := map[string]string{"Authorization": "Bearer tok_svc_0123456789"}
	require.Equal(t, "null\n", s.do(call{path: "/get-session", header: value}).text)
	s.do(call{path: "/list-accounts", header: value}).requireRefused(401, "UNAUTHORIZED")
	a := s.do(call{path: "/get-session", header: value, cookie: cookie})
	require.Equal(t, "null\n", a.text)
	require.Empty(t, a.Cookies())
	require.NotNil(t, s.session(cookie), "the session goes on without it")
	require.NotContains(t, s.log.String(), "0123456789")

	session := map[string]string{"Authorization": "Bearer " + cookie.Value}
	require.Equal(t, "null\n", s.do(call{path: "/get-session", header: session}).text, "a session in the header is ignored too")
}

// everything is all that the database hang, a row a line.
func (s *site) everything() string {
	s.t.Helper()
	db := s.config.Sessions.DB
	rows, _ := db.Query(s.t.Context(), `
		select table_schema, table_name from information_schema.tables
		where table_type = 'BASE TABLE' and table_schema not in ('pg_catalog', 'information_schema')`)
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Schema, Name string }])
	require.NoError(s.t, err)
	require.NotEmpty(s.t, tables)
	var all strings.Builder
	for _, table := range tables {
		rows, _ := db.Query(s.t.Context(), "select t::text from "+pgx.Identifier{table.Schema, table.Name}.Sanitize()+" t")
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(s.t, err)
		for _, line := range lines {
			all.WriteString(table.Name + " " + line + "\n")
		}
	}
	return all.String()
}

// forms returns the encodings in which a secret could be stored.
func forms(secret string) []string {
	return []string{
		secret, hex.EncodeToString([]byte(secret)), // as PostgreSQL writes bytes
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="),
	}
}

func TestSignInSecretsAreNotStoredInClear(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	b := s.browser()
	asked := b.begin("github")
	require.NotContains(t, s.everything(), asked.Query().Get("state"), "only its hash is stored")
	query := h.approve(asked)
	b.back("github", query).requireSentTo("/")
	b.list("/list-accounts")
	b.session()
	refused := s.browser()
	refused.begin("github")
	refused.back("github", query).requireSentBack(s.errorPage(), reason("state_mismatch"))
	wrong := s.browser()
	code := h.approve(wrong.begin("github"))
	code.Set("code", "no-such-code")
	wrong.back("github", code).requireSentBack(s.errorPage(), reason("invalid_code"))

	cookie := b.cookies()[sessionCookie]
	token, _, _ := strings.Cut(cookie, ".")
	secrets := append(h.seen(), "no-such-code", cookie, token)
	require.Len(t, secrets, 9, "the application's, two codes, two verifiers, a token, a code of nobody, a session's twice")
	stored, logged := s.everything(), s.log.String()
	require.Contains(t, stored, "ada@acme.example", "the search finds what is there")
	require.Contains(t, stored, "provider_tokens (")
	require.Contains(t, logged, "/api/auth/callback/github")
	for _, secret := range secrets {
		for _, form := range forms(secret) {
			require.NotContains(t, stored, form)
			require.NotContains(t, logged, form)
			for _, heard := range s.responses {
				require.NotContains(t, heard, form)
			}
		}
	}
}

func TestProviderTokenIsStored(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	tokens := s.config.Tokens.(vault.Tokens)
	b := s.browser()
	for range 2 { // the second takes the place of the first
		b.signIn(h).requireSentTo("/")
		secrets := h.seen()
		token, ok, err := tokens.Get(t.Context(), b.user(), "github")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, secrets[len(secrets)-1], token.Reveal())
	}
	require.Equal(t, 1, s.count("provider_tokens"))

	ring, err := vault.NewRing([]config.Secret{"another master key of 32 bytes.."})
	require.NoError(t, err)
	_, _, err = vault.Tokens{DB: tokens.DB, Ring: ring}.Get(t.Context(), b.user(), "github")
	require.ErrorIs(t, err, vault.ErrKeyChanged)
}

// A token that cannot be stored does not prevent the sign-in.
func TestSignInSucceedsIfTokenCannotBeStored(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	_, err := s.config.Sessions.DB.Exec(t.Context(), "alter table provider_tokens rename to elsewhere")
	require.NoError(t, err)
	b := s.browser()
	b.signIn(h).requireSentTo("/")
	require.NotNil(t, b.session())
	require.Contains(t, s.log.String(), "store the provider's token")
	h.requireNoSecret(s.log.String())
}
