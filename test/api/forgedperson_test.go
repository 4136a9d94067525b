package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// testForgedPerson has somebody with access to the database, but without the service's keys, try to sign in as
// another person by an account of their own at the code host, with a log that they made.
func testForgedPerson(t *testing.T, s *fixture) {
	host := newFakeCodeHost(t) // its first person is number 1000
	v := s.serve(t, s.cloneDatabase(t), "SVC_OAUTH_URL="+host.URL)
	v.expectsErrors = true
	log, ada := events.NewID(time.Now()).String(), s.id(t, "user ada")
	fill := strings.NewReplacer("{log}", log, "{ada}", ada, "{host}", host.URL)
	for _, statement := range []string{
		`insert into logs values ('{log}', 2, date_trunc('ms', now()))`,
		`insert into events select workspace_id, seq, gen_random_uuid(), '{ada}', seq, kind, 1, last_at, meta, data
			from logs, (values
				(1, 'user.registered', '{"userId":"{ada}","name":"Ada Lind","emails":["mallory@evil.example"]}'::json),
				(2, 'user.account_linked', '{"userId":"{ada}","provider":"github","host":"{host}","accountId":"1000","login":"person-0"}')
			) as forged (seq, kind, data), (select meta from events where stream = '{ada}' limit 1) genuine where workspace_id = '{log}'`,
		`insert into global_keys values ('account/github/{host}/1000', '{log}', '{ada}'), ('email/mallory@evil.example', '{log}', '{ada}')`,
		`insert into accounts select 'github/{host}/1000', '{log}', '{ada}', 'github', '1000', 'person-0', last_at from logs
			where workspace_id = '{log}'`,
		`update users set workspace_id = '{log}', email = 'mallory@evil.example', emails = '{mallory@evil.example}' where user_id = '{ada}'`,
	} {
		done, err := connectPool(t, v.database).Exec(t.Context(), fill.Replace(statement))
		require.NoError(t, err, statement)
		require.NotZero(t, done.RowsAffected(), statement)
	}
	a := host.signIn(t, v, "mallory@evil.example")
	require.Empty(t, sessionCookie(a))
	require.Contains(t, a.header.Get("Location"), "error=internal_server_error")
	v.waitForOutput(t, `level=ERROR msg="event was not appended by this service`)

	// Nor is the log signed, and every process reports that.
	v.waitForOutput(t, "log has unsigned events")
	eventually(t, func() bool {
		return strings.Contains(v.ask(t, "nobody", "GET /health/ready", "").is(t, "200").body, "newest events are not signed: 1.")
	}, "it is ready without a warning")
	require.Zero(t, queryRows[int](t, v, `select count(*)::int from proof_checkpoints where workspace_id = $1`, log)[0])
	status, text := s.start(t, "svc-db", nil, "verify", "-views", "-url="+v.database).waitForExit(t)
	require.Equal(t, 1, status, text)
	require.Contains(t, text, log+": BAD")
	require.Contains(t, text, "DIFFERENT: users "+ada)
}
