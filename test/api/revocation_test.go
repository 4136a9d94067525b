package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// listOneRun is a cheap request that every token with scope api.read and every member may send.
const listOneRun = "GET /api/v1/runs?status=active&limit=1"

// testRevocation shows that a revoked right is refused at the next request, through either of two services
// on one database.
func testRevocation(t *testing.T, s *fixture) {
	database := s.cloneDatabase(t)
	one, other := s.serve(t, database), s.serve(t, database)
	// alternate calls test n times, with the services swapped each time.
	alternate := func(n int, test func(i int, one, other *service)) {
		for i := range n {
			test(i, one, other)
			one, other = other, one
		}
	}

	t.Run("a rotated token", func(t *testing.T) {
		created := one.ask(t, "mia@acme", "POST /api/v1/service-accounts", `{"name":"rotating","scopes":["api.read"]}`).is(t, "201")
		account, token := created.text(t, "account.id"), created.text(t, "token")
		alternate(100, func(_ int, one, other *service) {
			old := token
			other.ask(t, "token "+old, listOneRun, "").is(t, "200")
			token = one.ask(t, "mia@acme", "POST /api/v1/service-accounts/"+account+"/rotate", "").is(t, "200").text(t, "token")
			other.ask(t, "token "+old, listOneRun, "").is(t, "401 service_token_invalid")
			one.ask(t, "token "+old, listOneRun, "").is(t, "401 service_token_invalid")
			other.ask(t, "token "+token, listOneRun, "").is(t, "200")
			one.ask(t, "token "+token, listOneRun, "").is(t, "200")
		})
		one.requireOneStaleUse(t, account)
	})

	t.Run("a revoked account", func(t *testing.T) {
		alternate(20, func(i int, one, other *service) {
			created := one.ask(t, "mia@acme", "POST /api/v1/service-accounts", fmt.Sprintf(`{"name":"passing-%d","scopes":["api.read"]}`, i)).is(t,
				"201")
			as := "token " + created.text(t, "token")
			other.ask(t, as, listOneRun, "").is(t, "200")
			one.ask(t, "ada@acme", "POST /api/v1/service-accounts/"+created.text(t, "account.id")+"/revoke", "").is(t, "200")
			other.ask(t, as, listOneRun, "").is(t, "401 service_token_invalid")
			one.ask(t, as, listOneRun, "").is(t, "401 service_token_invalid")
		})
	})

	t.Run("a demoted Maintainer", func(t *testing.T) {
		maintainer, leo := "PATCH /api/v1/members/"+s.id(t, "member max@acme"), "PATCH /api/v1/members/"+s.id(t, "member leo@acme")
		alternate(20, func(i int, one, other *service) {
			flag := fmt.Sprintf(`{"canApproveLoops":%t}`, i%2 == 0)
			other.ask(t, "max@acme", leo, flag).is(t, "200")
			one.ask(t, "ada@acme", maintainer, `{"role":"Viewer"}`).is(t, "200")
			other.ask(t, "max@acme", leo, flag).is(t, "403 role_required")
			one.ask(t, "max@acme", leo, flag).is(t, "403 role_required")
			one.ask(t, "ada@acme", maintainer, `{"role":"Maintainer"}`).is(t, "200")
		})
	})

	t.Run("a demoted Owner", func(t *testing.T) {
		ben := "PATCH /api/v1/members/" + s.id(t, "member ben@acme")
		alternate(10, func(i int, one, other *service) {
			rename := fmt.Sprintf(`{"name":"Acme %d"}`, i)
			other.ask(t, "ben@acme", "PATCH /api/v1/workspace", rename).is(t, "200")
			one.ask(t, "ada@acme", ben, `{"role":"Maintainer"}`).is(t, "200")
			other.ask(t, "ben@acme", "PATCH /api/v1/workspace", rename).is(t, "403 role_required")
			other.ask(t, "ben@acme", ben, `{"role":"Owner"}`).is(t, "403 owner_required")
			one.ask(t, "ada@acme", ben, `{"role":"Owner"}`).is(t, "200")
		})
	})

	t.Run("a removed member", func(t *testing.T) {
		people := []string{"vera", "leo", "max", "ben"}
		alternate(len(people), func(i int, one, other *service) {
			as := people[i] + "@acme"
			other.ask(t, as, listOneRun, "").is(t, "200")
			one.ask(t, "ada@acme", "DELETE /api/v1/members/"+s.id(t, "member "+as), "").is(t, "204")
			other.ask(t, as, listOneRun, "").is(t, "404 tenant_not_found")
			one.ask(t, as, listOneRun, "").is(t, "404 tenant_not_found")
			other.ask(t, people[i], listOneRun, "").is(t, "200") // in their own workspace
		})
	})

	t.Run("a session", func(t *testing.T) {
		alternate(2, func(_ int, one, other *service) {
			cookie := "Cookie: " + cookieName + "=" + one.signIn(t, "ada")
			other.ask(t, "nobody", listOneRun, "", cookie).is(t, "200")
			one.ask(t, "nobody", "POST /api/auth/sign-out", "", cookie).is(t, "200")
			other.ask(t, "nobody", listOneRun, "", cookie).is(t, "401 unauthenticated")
		})
	})

	t.Run("a session while a body arrives", func(t *testing.T) {
		bodies := map[string]string{
			"PATCH /api/v1/workspace":            `{"name":"Too late"}`,
			"POST /api/auth/organization/update": `{"data":{"name":"Too late"}}`,
		}
		alternate(2, func(_ int, one, other *service) {
			for target, body := range bodies {
				cookie := "Cookie: " + cookieName + "=" + one.signIn(t, "ada")
				finish := other.beginBody(t, "nobody@acme", target, body, cookie)
				one.ask(t, "nobody", "POST /api/auth/sign-out", "", cookie).is(t, "200")
				require.Equal(t, 401, finish().status, target)
			}
		})
		require.NotContains(t, one.ask(t, "ada@acme", "GET /api/v1/workspace", "").is(t, "200").body, "Too late")
	})

	t.Run("a member while a position is awaited", func(t *testing.T) {
		v := s.serve(t, s.cloneDatabase(t), "SVC_METRICS_ADDR=127.0.0.1:0")
		m := &metricsEndpoint{v.listenAddress(t, func(line string) bool { return strings.Contains(line, "listener=metrics") })}
		head := v.ask(t, "ada@acme", "PATCH /api/v1/workspace", `{"name":"Acme before"}`).is(t, "200").header.Get("X-Svc-Position")
		position, err := strconv.Atoi(head)
		require.NoError(t, err)
		const read = "GET /api/v1/workspace"
		_, in := v.sendHead(t, "vera@acme", read, []string{fmt.Sprintf("X-Svc-Min-Position: %d", position+1)})
		eventually(t, func() bool { return m.scrape(t).value("svc_slots_held", "bound", "positions") == 1 })
		v.ask(t, "ada@acme", "DELETE /api/v1/members/"+s.id(t, "member vera@acme"), "").is(t, "204")
		v.readRaw(t, read, in).is(t, "404 tenant_not_found")
	})

	t.Run("read your own writes", func(t *testing.T) {
		alternate(10, func(i int, one, other *service) {
			a := one.ask(t, "ada@acme", "PATCH /api/v1/workspace", fmt.Sprintf(`{"name":"Acme again %d"}`, i)).is(t, "200")
			position := a.header.Get("X-Svc-Position")
			log := other.ask(t, "ada@acme", "GET /api/v1/audit?action=workspace.renamed&limit=1", "", "X-Svc-Min-Position: "+position).is(t, "200")
			require.Equal(t, position, fmt.Sprint(log.at(t, "items.0.seq")))
			require.Equal(t, fmt.Sprintf("Acme again %d", i), log.text(t, "items.0.changes.0.to"))
		})
	})
}

// requireOneStaleUse waits for the event that a rotated token was used. There is only one, however often
// it was used through either service, since one an hour is recorded.
func (v *service) requireOneStaleUse(t *testing.T, account string) {
	t.Helper()
	eventually(t, func() bool {
		n := len(queryRows[string](t, v, `select id::text from events where stream = $1 and kind = 'service_account.stale_token_used'`, account))
		require.LessOrEqual(t, n, 1)
		return n == 1
	})
}

// beginBody sends the head of a request with a body and returns once the service reads that. finish sends the
// body byte by byte, as over a slow line, and returns the answer.
func (v *service) beginBody(t *testing.T, as, line, body string, headers ...string) (finish func() answer) {
	t.Helper()
	conn, in := v.sendHead(t, as, line, append(headers, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)),
		"Expect: 100-continue"))
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusContinue, res.StatusCode)
	return func() answer {
		t.Helper()
		slowly := time.NewTicker(10 * time.Millisecond)
		defer slowly.Stop()
		for i := range body {
			<-slowly.C
			_, err := io.WriteString(conn, body[i:i+1])
			require.NoError(t, err)
		}
		return v.readRaw(t, line, in)
	}
}

// sendHead sends the head of a request over a connection of its own.
func (v *service) sendHead(t *testing.T, as, line string, headers []string) (net.Conn, *bufio.Reader) {
	t.Helper()
	header := v.fixture.credentials(t, as)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		header.Add(name, value)
	}
	conn, err := net.Dial("tcp", v.host)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
	var head strings.Builder
	fmt.Fprintf(&head, "%s HTTP/1.1\r\nHost: localhost:4000\r\n", line)
	require.NoError(t, header.Write(&head))
	_, err = io.WriteString(conn, head.String()+"\r\n")
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}

func (v *service) readRaw(t *testing.T, line string, in *bufio.Reader) answer {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	return v.readAnswer(t, line, res)
}
