package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testStop shows graceful shutdown: on SIGTERM or SIGINT a service completes requests that it has
// begun, accepts no new connections and exits with status 0.
func testStop(t *testing.T, s *fixture) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			v := s.serve(t, s.cloneDatabase(t))
			v.ask(t, "reader", listOneRun, "").is(t, "200") // leaves an idle connection

			body := `{"name":"last-minute","scopes":["api.read"]}`
			conn, err := net.Dial("tcp", v.host)
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
			_, err = fmt.Fprintf(conn, "POST /api/v1/service-accounts HTTP/1.1\r\nHost: a\r\nCookie: %s=%s\r\nX-Svc-Tenant: acme\r\n"+
				"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", cookieName, s.sessions["ada"], len(body))
			require.NoError(t, err)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusContinue, res.StatusCode) // the service now waits for the body

			require.NoError(t, v.cmd.Process.Signal(sig))
			v.waitForOutput(t, "msg=stopping")
			eventually(t, func() bool {
				extra, err := net.Dial("tcp", v.host)
				if err == nil {
					extra.Close()
				}
				return err != nil
			}, "it still accepts connections")

			_, err = io.WriteString(conn, body)
			require.NoError(t, err)
			res, err = http.ReadResponse(in, nil)
			require.NoError(t, err)
			a := v.readAnswer(t, createAccount, res).is(t, "201")
			status, text := v.waitForExit(t)
			require.Zero(t, status, text)
			require.Contains(t, text, "msg=stopped")
			require.NotContains(t, text, "cut off")

			after := s.serve(t, v.database)
			after.ask(t, "token "+a.text(t, "token"), listOneRun, "").is(t, "200")
		})
	}
}
