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

func pool(t *testing.T, address string) *pgxpool.Pool {
	p, err := pgxpool.New(context.Background(), address)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func (s *site) quoted(database *url.URL) string {
	return pgx.Identifier{strings.TrimPrefix(database.Path, "/")}.Sanitize()
}

// learnNames reads what the ids and tails of the seeded database belong to.
func (s *site) learnNames(t *testing.T) {
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

// id returns the id of something by its name, such as "member vera@acme".
func (s *site) id(t *testing.T, name string) string {
	t.Helper()
	for id, n := range s.names {
		if n == name {
			return id
		}
	}
	require.Fail(t, "the seeded database has no "+name)
	return ""
}

// clone makes a copy of the seeded database and returns its address.
func (s *site) clone(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	u := *s.seeded
	u.Path = fmt.Sprintf("%s_%d", u.Path, len(s.clones)+1)
	s.clones[u.String()] = ""
	s.mu.Unlock()
	_, err := s.admin.Exec(t.Context(), fmt.Sprintf("create database %s template %s strategy file_copy", s.quoted(&u), s.quoted(s.seeded)))
	require.NoError(t, err)
	var since string
	require.NoError(t, s.admin.QueryRow(t.Context(), `select pg_current_xact_id()::text`).Scan(&since))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clones[u.String()] = since
	return u.String()
}

// rows asks the service's database.
func rows[T any](t *testing.T, v *service, sql string, args ...any) []T {
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

// heads says how far every log has come: nothing was stored if they stay.
func (v *service) heads(t *testing.T) []string {
	t.Helper()
	return rows[string](t, v, `select format('%s %s', workspace_id, head) from logs order by 1`)
}
