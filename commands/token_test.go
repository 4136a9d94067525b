package commands_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands/bearer"
)

// A token is not printed, whatever contains it.
func TestServiceTokenIsNotPrinted(t *testing.T) {
	t.Parallel()
	token := bearer.NewServiceToken()
	holder := struct {
		Token bearer.ServiceToken
		List  []bearer.ServiceToken
		Map   map[string]*bearer.ServiceToken
		Any   any
	}{token, []bearer.ServiceToken{token}, map[string]*bearer.ServiceToken{"token": &token}, &token}
	command := create(newPerson("ann"), newID(), "ci-bot")
	command.Token = token

	var out bytes.Buffer
	for _, what := range []any{token, &token, holder, &holder, command, &command} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%30s", "%.10s", "%T %[1]v"} {
			fmt.Fprintf(&out, verb+"\n", what)
		}
		fmt.Fprintln(&out, what, fmt.Errorf("with %v", what), errors.New(fmt.Sprint(what)))
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(handler).Info("m", slog.Any("what", what), slog.Group("g", slog.Any("what", what)))
		}
		text, err := json.Marshal(what)
		require.NoError(t, err)
		out.Write(text)
	}
	require.Contains(t, out.String(), "[service token]")
	secret := token.Reveal()
	for i := 8; i+8 <= len(secret); i++ { // nor a part of it, in letters or in hex
		require.NotContains(t, out.String(), secret[i:i+8])
		require.NotContains(t, strings.ToLower(out.String()), fmt.Sprintf("%x", secret[i:i+8]))
	}
}

// No log of a workspace and no table contains a token.
func TestDatabaseHasNoToken(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	account, first := m.account(t, "ci-bot")
	r := rotate(m.owner, m.id, account)
	r.Key = "k"
	_, err := m.RotateServiceAccount(t.Context(), r)
	require.NoError(t, err)

	var tables []string
	require.NoError(t, m.db.QueryRow(t.Context(),
		`select array_agg(tablename::text) from pg_tables where schemaname = 'public'`).Scan(&tables))
	require.Contains(t, tables, "service_tokens")
	for _, table := range tables {
		for _, token := range []bearer.ServiceToken{first, r.Token} {
			var n int
			err := m.db.QueryRow(t.Context(), `select count(*) from `+table+` t where strpos(t::text, $1) > 0`, token.Reveal()[8:20]).Scan(&n)
			require.NoError(t, err)
			require.Zero(t, n, table)
		}
	}
}
