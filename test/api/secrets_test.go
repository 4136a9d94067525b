package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// testSecrets looks for secrets where they must not be: in all that the
// processes said and in every column of every table. Those are the tokens of
// the demonstration and those that were made meanwhile, the cookies of all
// sessions, AUTH_SECRET, the engine's secret and the database's password.
// Answers were looked through as they came.
func testSecrets(t *testing.T, s *site) {
	require.Greater(t, len(s.secrets), len(s.tokens)+len(s.people))
	t.Run("output", func(t *testing.T) {
		for _, p := range s.processes {
			text, _ := p.out.read()
			require.NotEmpty(t, text)
			require.NotRegexp(t, tokenForm, text)
			for secret, what := range s.secrets {
				if strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString([]byte(secret))) {
					require.Fail(t, what+" was printed", p.cmd.Path)
				}
			}
		}
	})
	_, err := s.admin.Exec(t.Context(), fmt.Sprintf("alter database %s with allow_connections true", s.quoted(s.seeded)))
	require.NoError(t, err)
	t.Run("the seeded database", func(t *testing.T) {
		require.Contains(t, s.search(t, s.seeded.String(), "0", "ada@acme.example"), "users", "the search finds what is there")
		s.requireNone(t, s.seeded.String(), "0")
	})
	t.Run("its clones", func(t *testing.T) {
		require.NotEmpty(t, s.clones)
		for database, since := range s.clones {
			s.requireNone(t, database, since)
		}
	})
}

// requireNone searches what was written in a database since a transaction.
func (s *site) requireNone(t *testing.T, database, since string) {
	t.Helper()
	words := anyToken()
	for secret := range s.secrets {
		if !tokenForm.MatchString(secret) { // tokens are found by how they begin
			words = append(words, secret, hex.EncodeToString([]byte(secret)))
		}
	}
	require.Empty(t, s.search(t, database, since, words...), database)
}

// anyToken returns what any token has in it: as it is, in hex as bytea is
// shown, and in base64, wherever in a longer text it stands.
func anyToken() (words []string) {
	for _, begin := range []string{"tok_svc_", "tok_enr_"} {
		words = append(words, hex.EncodeToString([]byte(begin)))
		for shift := range 3 {
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + begin))
			words = append(words, text[shift+(shift+2)/3:][:9])
		}
		for _, r := range "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" { // not tok_svc_[redacted]
			words = append(words, begin+string(r))
		}
	}
	return words
}

// search returns the tables that hold one of words, with the rows as text. It reads
// each row once, however many words there are.
func (s *site) search(t *testing.T, database, since string, words ...string) map[string]string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	db, err := pgx.Connect(t.Context(), u.String())
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	names, err := db.Query(t.Context(), `select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(names, pgx.RowTo[string])
	require.NoError(t, err)
	require.True(t, slices.Contains(tables, "events"))
	find, found := finder(words), map[string]string{}
	for _, table := range tables {
		rows, err := db.Query(t.Context(), fmt.Sprintf(`
			select t::text from %s t where xmin::text::bigint >= $1::bigint`, pgx.Identifier{table}.Sanitize()), since)
		require.NoError(t, err)
		for rows.Next() {
			if line := rows.RawValues()[0]; find(line) {
				found[table] = string(line[:min(len(line), 1000)])
				rows.Close()
			}
		}
		require.NoError(t, rows.Err(), table)
	}
	return found
}

// finder returns what tells whether a text holds one of words. It goes through the
// text once: at most places none of them begins.
func finder(words []string) func(text []byte) bool {
	const begin = 8
	var short [][]byte // as the password of somebody's own server may be
	long := map[uint64][]string{}
	for _, word := range words {
		if len(word) < begin {
			short = append(short, []byte(word))
			continue
		}
		key := binary.LittleEndian.Uint64([]byte(word))
		long[key] = append(long[key], word)
	}
	return func(text []byte) bool {
		for at := range max(len(text)-begin+1, 0) {
			for _, word := range long[binary.LittleEndian.Uint64(text[at:])] {
				if bytes.HasPrefix(text[at:], []byte(word)) {
					return true
				}
			}
		}
		return slices.ContainsFunc(short, func(word []byte) bool { return bytes.Contains(text, word) })
	}
}
