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

// rightsCheckedEvery is a little more than the time between two looks at the rights
// of a reader.
const rightsCheckedEvery = 1100 * time.Millisecond

// testExports shows who may take a copy of the audit log, and for how long.
func testExports(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))

	t.Run("another site asks for none", func(t *testing.T) {
		before := v.heads(t)
		for _, from := range [][]string{
			{"Sec-Fetch-Site: cross-site"},
			{"Sec-Fetch-Site: same-site"},
			{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, // a link to it
			{"Origin: https://elsewhere.example"},
		} {
			v.ask(t, "ada@acme", "GET /api/v1/audit/export?format=csv", "", from...).is(t, "403 cross_origin_refused")
		}
		require.Equal(t, before, v.heads(t), "nothing was recorded")
		for _, from := range [][]string{{"Sec-Fetch-Site: same-origin"}, {"Sec-Fetch-Site: none"}, {"Origin: http://" + v.host}, nil} {
			v.ask(t, "ada@acme", "GET /api/v1/audit/export?format=csv&action=workspace.*", "", from...).is(t, "200")
		}
		v.ask(t, "ada@acme", "GET /api/v1/audit?limit=1", "", "Sec-Fetch-Site: cross-site").is(t, "200") // it records nothing
	})

	t.Run("it ends with the right to it", func(t *testing.T) {
		whole := v.ask(t, "ada@acme", "GET /api/v1/audit/export?format=ndjson&leaf=true", "").is(t, "200")
		for _, c := range []struct{ who, line, status string }{ // by ada
			{"ben", "DELETE /api/v1/members/" + s.id(t, "member ben@acme"), "204"},
			{"ada", "POST /api/auth/sign-out", "200"},
		} {
			body := v.beginExport(t, c.who+"@acme")
			v.ask(t, "ada@acme", c.line, "").is(t, c.status)
			<-time.After(rightsCheckedEvery) // the service waits for its reader meanwhile
			read, err := io.Copy(io.Discard, body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s: %d of %d bytes", c.who, read, len(whole.body))
			v.says(t, "export ended: the caller's rights have changed")
		}
	})
}

// beginExport asks for a large export and reads nothing of it yet.
func (v *service) beginExport(t *testing.T, as string) io.Reader {
	t.Helper()
	conn, err := net.Dial("tcp", v.host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(128<<10)) // the kernel reads ahead no further
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://%s/api/v1/audit/export?format=ndjson&leaf=true", v.host), nil)
	require.NoError(t, err)
	r.Header = v.site.credentials(t, as)
	require.NoError(t, r.Write(conn))
	res, err := http.ReadResponse(bufio.NewReader(conn), r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	return res.Body
}
