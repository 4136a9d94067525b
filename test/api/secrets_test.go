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

// testSecrets searches the output of all processes and every column of every table for secrets: the
// tokens of the demonstration data and those that tests created, the cookies of all sessions, the secrets
// in the environment and the database's password. checkAnswer searches the answers.
func testSecrets(t *testing.T, s *fixture) {
	require.Greater(t, len(s.secrets), len(s.tokens)+len(s.people))
	t.Run("output", func(t *testing.T) {
		for _, p := range s.processes {
			text, _ := p.out.read()
			require.NotEmpty(t, text)
			require.NotRegexp(t, tokenPattern, text)
			for secret, description := range s.secrets {
				if strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString([]byte(secret))) {
					require.Fail(t, description+" was printed", p.cmd.Path)
				}
			}
		}
	})
	_, err := s.admin.Exec(t.Context(), fmt.Sprintf("alter database %s with allow_connections true", s.quotedName(s.seeded)))
	require.NoError(t, err)
	t.Run("the seeded database", func(t *testing.T) {
		require.Contains(t, s.searchTables(t, s.seeded.String(), "0", "ada@acme.example"), "users", "the search must find what is stored")
		s.requireNoSecrets(t, s.seeded.String(), "0")
	})
	t.Run("its clones", func(t *testing.T) {
		require.NotEmpty(t, s.clones)
		for database, since := range s.clones {
			s.requireNoSecrets(t, database, since)
		}
	})
}

// requireNoSecrets searches the rows that were written to a database after a transaction.
func (s *fixture) requireNoSecrets(t *testing.T, database, since string) {
	t.Helper()
	words := tokenFragments()
	for secret := range s.secrets {
		if !tokenPattern.MatchString(secret) { // tokenFragments finds tokens by their prefix
			words = append(words, secret, hex.EncodeToString([]byte(secret)))
		}
	}
	require.Empty(t, s.searchTables(t, database, since, words...), database)
}

// tokenFragments returns texts of which every text with a token contains one: token prefixes in plain text,
// in hex, as bytea is printed, and in base64 at each of the three alignments.
func tokenFragments() (words []string) {
	for _, prefix := range []string{"tok_svc_", "tok_enr_"} {
		words = append(words, hex.EncodeToString([]byte(prefix)))
		for shift := range 3 {
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + prefix))
			words = append(words, text[shift+(shift+2)/3:][:9])
		}
		for _, r := range "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" { // so that tok_svc_[redacted] is not found
			words = append(words, prefix+string(r))
		}
	}
	return words
}

// searchTables returns the tables that contain one of words, each with a row as text. It reads each row once,
// regardless of the number of words. since is a transaction id.
func (s *fixture) searchTables(t *testing.T, database, since string, words ...string) map[string]string {
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
	matches, found := newMatcher(words), map[string]string{}
	for _, table := range tables {
		rows, err := db.Query(t.Context(), fmt.Sprintf(`
			select t::text from %s t where xmin::text::bigint >= $1::bigint`, pgx.Identifier{table}.Sanitize()), since)
		require.NoError(t, err)
		for rows.Next() {
			if line := rows.RawValues()[0]; matches(line) {
				found[table] = string(line[:min(len(line), 1000)])
				rows.Close()
			}
		}
		require.NoError(t, rows.Err(), table)
	}
	return found
}

// newMatcher returns a function that reports whether a text contains one of words. It reads the text once,
// and looks words up by their first eight bytes.
func newMatcher(words []string) func(text []byte) bool {
	const prefixLen = 8
	var short [][]byte // a developer's database password may be short
	long := map[uint64][]string{}
	for _, word := range words {
		if len(word) < prefixLen {
			short = append(short, []byte(word))
			continue
		}
		key := binary.LittleEndian.Uint64([]byte(word))
		long[key] = append(long[key], word)
	}
	return func(text []byte) bool {
		for at := range max(len(text)-prefixLen+1, 0) {
			for _, word := range long[binary.LittleEndian.Uint64(text[at:])] {
				if bytes.HasPrefix(text[at:], []byte(word)) {
					return true
				}
			}
		}
		return slices.ContainsFunc(short, func(word []byte) bool { return bytes.Contains(text, word) })
	}
}
