package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rightsCheckInterval is slightly longer than the interval at which an export checks its reader's rights.
const rightsCheckInterval = 1100 * time.Millisecond

// testExports shows that a cross-site request cannot export the audit log, and that an export ends when
// its reader loses the right to it.
func testExports(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))

	t.Run("cross-site requests are refused", func(t *testing.T) {
		before := v.logHeads(t)
		for _, from := range [][]string{
			{"Sec-Fetch-Site: cross-site"},
			{"Sec-Fetch-Site: same-site"},
			{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, // a followed link
			{"Origin: https://elsewhere.example"},
		} {
			v.ask(t, "ada@acme", "GET /api/v1/audit/export?format=csv", "", from...).is(t, "403 cross_origin_refused")
		}
		require.Equal(t, before, v.logHeads(t), "a refusal was recorded")
		for _, from := range [][]string{{"Sec-Fetch-Site: same-origin"}, {"Sec-Fetch-Site: none"}, {"Origin: http://" + v.host}, nil} {
			v.ask(t, "ada@acme", "GET /api/v1/audit/export?format=csv&action=workspace.*", "", from...).is(t, "200")
		}
		v.ask(t, "ada@acme", "GET /api/v1/audit?limit=1", "", "Sec-Fetch-Site: cross-site").is(t, "200") // reading the list records nothing
	})

	t.Run("an export ends with the right to it", func(t *testing.T) {
		whole := v.ask(t, "ada@acme", "GET /api/v1/audit/export?format=ndjson&leaf=true", "").is(t, "200")
		for _, c := range []struct{ who, line, status string }{ // both requests are Ada's
			{"ben", "DELETE /api/v1/members/" + s.id(t, "member ben@acme"), "204"},
			{"ada", "POST /api/auth/sign-out", "200"},
		} {
			body := v.beginExport(t, c.who+"@acme")
			v.ask(t, "ada@acme", c.line, "").is(t, c.status)
			<-time.After(rightsCheckInterval) // the service is blocked on its reader meanwhile
			read, err := io.Copy(io.Discard, body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s: %d of %d bytes", c.who, read, len(whole.body))
			v.waitForOutput(t, "export ended: the caller's rights have changed")
		}
	})
}

// beginExport requests a large export and returns its unread body.
func (v *service) beginExport(t *testing.T, as string) io.Reader {
	t.Helper()
	conn, err := net.Dial("tcp", v.host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(128<<10)) // so that the service blocks
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://%s/api/v1/audit/export?format=ndjson&leaf=true", v.host), nil)
	require.NoError(t, err)
	r.Header = v.fixture.credentials(t, as)
	require.NoError(t, r.Write(conn))
	res, err := http.ReadResponse(bufio.NewReader(conn), r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	return res.Body
}
