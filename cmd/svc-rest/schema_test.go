package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/migrations"
	"svc/test/pgtest"
)

// ready returns what readiness says about a dependency.
func (r *running) ready(where, name string) (status, message string) {
	r.t.Helper()
	res, err := http.Get(r.url + "/health/ready")
	require.NoError(r.t, err)
	defer res.Body.Close()
	require.Equal(r.t, http.StatusServiceUnavailable, res.StatusCode, "there is no engine")
	var body map[string]json.RawMessage
	require.NoError(r.t, json.NewDecoder(res.Body).Decode(&body))
	var list map[string]struct{ Status, Message string }
	require.NoError(r.t, json.Unmarshal(body[where], &list))
	return list[name].Status, list[name].Message
}

// A database that stores text in another encoding is not used.
func TestReadinessRefusesOtherEncodings(t *testing.T) {
	t.Parallel()
	r := start(t, "SVC_DATABASE_URL="+pgtest.Encoded(t, "LATIN1"))
	require.Eventually(t, func() bool {
		_, message := r.ready("error", "database")
		return strings.Contains(message, "the database's encoding is LATIN1 and has to be UTF8")
	}, testTimeout, 10*time.Millisecond)
	r.until("has to be UTF8")
}

// An empty or older schema makes the service unready; a newer one, or altered tables, cause a warning.
func TestReadinessChecksTheSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	r := start(t, "SVC_DATABASE_URL="+url)
	eventually := func(where, name, wanted, text string) {
		t.Helper()
		require.Eventually(t, func() bool {
			status, message := r.ready(where, name)
			if text != "" && status == wanted {
				require.Contains(t, message, text)
			}
			return status == wanted
		}, testTimeout, 10*time.Millisecond)
	}
	eventually("error", "database", "down", "lacks")
	require.Contains(t, r.until("the schema is older than this version"), "level=ERROR")

	require.NoError(t, migrations.Migrate(t.Context(), conn, io.Discard))
	eventually("info", "database", "up", "")
	status, _ := r.ready("info", "schema")
	require.Empty(t, status, "nothing is to be said of it")

	_, err = conn.Exec(t.Context(), `
		alter table oauth_states rename to genuine;
		create view oauth_states as select * from genuine`)
	require.NoError(t, err)
	eventually("info", "schema", "warning", "oauth_states is no table")
	require.Contains(t, r.until("tables of the schema were altered"), "level=ERROR")
	_, err = conn.Exec(t.Context(), `drop view oauth_states; alter table genuine rename to oauth_states`)
	require.NoError(t, err)
	eventually("info", "schema", "", "")

	_, err = conn.Exec(t.Context(), `insert into schema_history values (9999, 'later', 0, now(), 0, true)`)
	require.NoError(t, err)
	eventually("info", "schema", "warning", "9999")
	eventually("info", "database", "up", "")

	_, err = conn.Exec(t.Context(), `
		delete from schema_history where version in (9999, (select max(version) from schema_history where version < 9999))`)
	require.NoError(t, err)
	eventually("error", "database", "down", "lacks 1 migration")
}
