package api

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// connectPool returns a pool of connections to a database, which is closed when t ends.
func connectPool(t *testing.T, address string) *pgxpool.Pool {
	p, err := pgxpool.New(context.Background(), address)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// quotedName returns the name of a database as an SQL identifier.
func (s *fixture) quotedName(database *url.URL) string {
	return pgx.Identifier{strings.TrimPrefix(database.Path, "/")}.Sanitize()
}

// loadNames sets names from the ids and token tails in the seeded database.
func (s *fixture) loadNames(t *testing.T) {
	db, err := pgx.Connect(t.Context(), s.seeded.String())
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(t.Context()))
	rows, err := db.Query(t.Context(), `
		select workspace_id::text, 'workspace ' || slug from workspaces
		union all select user_id::text, 'user ' || split_part(email, '@', 1) from users
		union all select member_id::text, 'member ' || split_part(email, '@', 1) || '@' || slug from members join workspaces using (workspace_id)
		union all select invitation_id::text, 'invitation ' || split_part(email, '@', 1) || '@' || slug from invitations
			join workspaces using (workspace_id) where status = 'pending'
		union all select account_id::text, 'account ' || name from service_accounts
		union all select '"' || tail || '"', 'tail of ' || name from service_accounts
		union all select decision_id::text, 'decision ' || issue_number from decisions d join runs r using (workspace_id, run_id)
			where d.status = 'open'
		union all select run_id::text, 'run ' || issue_number from runs
		union all select distinct repo_id::text, 'repo ' || repo_name from runs`)
	require.NoError(t, err)
	var id, name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		s.names[id] = name
		return nil
	})
	require.NoError(t, err)
}

// id returns the seeded id that has a name in [fixture.names], such as "member vera@acme".
func (s *fixture) id(t *testing.T, name string) string {
	t.Helper()
	for id, n := range s.names {
		if n == name {
			return id
		}
	}
	require.Fail(t, "the seeded database has no "+name)
	return ""
}

// cloneDatabase copies the seeded database and returns the connection string of the copy.
func (s *fixture) cloneDatabase(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	u := *s.seeded
	u.Path = fmt.Sprintf("%s_%d", u.Path, len(s.clones)+1)
	s.clones[u.String()] = ""
	s.mu.Unlock()
	statement := fmt.Sprintf("create database %s template %s strategy file_copy", s.quotedName(&u), s.quotedName(s.seeded))
	_, err := s.admin.Exec(t.Context(), statement)
	require.NoError(t, err)
	var since string
	require.NoError(t, s.admin.QueryRow(t.Context(), `select pg_current_xact_id()::text`).Scan(&since))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clones[u.String()] = since
	return u.String()
}

// queryRows returns the single column that a query of the service's database selects.
func queryRows[T any](t *testing.T, v *service, sql string, args ...any) []T {
	t.Helper()
	db, err := pgx.Connect(t.Context(), v.database)
	require.NoError(t, err)
	defer db.Close(t.Context())
	r, err := db.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	list, err := pgx.CollectRows(r, pgx.RowTo[T])
	require.NoError(t, err)
	return list
}

// logHeads returns the head of each workspace's log. If they are unchanged, no event was appended.
func (v *service) logHeads(t *testing.T) []string {
	t.Helper()
	return queryRows[string](t, v, `select format('%s %s', workspace_id, head) from logs order by 1`)
}
