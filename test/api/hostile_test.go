package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testHostileInput sends oversized, endless and random requests, and shows that the service answers or
// ends each of them and keeps working.
func testHostileInput(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))

	t.Run("ten thousand headers", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("GET /api/v1/runs?status=active HTTP/1.1\nHost: svc\n")
		for i := range 10_000 {
			fmt.Fprintf(&b, "X-Header-%d: %s\n", i, strings.Repeat("x", 200))
		}
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, v.sendRaw(t, b.String()+"\n").status)
	})

	t.Run("endless header", func(t *testing.T) { v.requireCut(t, "GET /health/live HTTP/1.1\r\nX-Slow: ") })

	t.Run("endless body", func(t *testing.T) {
		head := "POST /api/auth/sign-in/email HTTP/1.1\r\nHost: svc\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
		v.requireCut(t, head+`{"email":"`)
	})

	t.Run("endless chunked body", func(t *testing.T) {
		head := "POST /api/auth/sign-in/email HTTP/1.1\r\nHost: svc\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
		v.requireCut(t, head+"a\r\n")
	})

	for seed := range uint64(4) {
		t.Run(fmt.Sprint("random requests, seed ", seed), func(t *testing.T) {
			t.Parallel()
			f := &fuzzer{random: rand.New(rand.NewPCG(seed, 1)), routes: v.loadSpec(t).routes()}
			slices.Sort(f.routes)
			for range 400 {
				line, body, headers := f.request()
				a := v.ask(t, f.pick([]string{"ada@acme", "vera@acme", "reader", "nobody", "mia@globex"}), line, body, headers...)
				require.NotEqual(t, http.StatusInternalServerError, a.status, "%q %q %q: %s", line, body, headers, a.body)
			}
		})
	}
	v.ask(t, "reader", "GET /api/v1/runs?status=active", "").is(t, "200") // it still works
}

// requireCut sends text and then a byte a second. The service must close the connection when the request's
// deadline of half a minute has passed.
func (v *service) requireCut(t *testing.T, text string) {
	t.Parallel()
	conn, err := net.Dial("tcp", v.host)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(timeout)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, bufio.NewReader(conn))
		ended <- err
	}()
	drip := time.NewTicker(time.Second)
	defer drip.Stop()
	for {
		select {
		case err := <-ended:
			if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
				require.Fail(t, "the service did not close the connection")
			}
			return
		case <-drip.C:
			_, _ = conn.Write([]byte("x")) // if it fails, reading ends too
		}
	}
}

// A fuzzer generates requests that are nearly valid.
type fuzzer struct {
	random *rand.Rand
	routes []string
}

func (f *fuzzer) pick(list []string) string { return list[f.random.IntN(len(list))] }

var (
	oddTexts = []string{
		"", " ", "0", "-1", "1", "25", "99999999999999999999", "1e3", "0x10", "NaN", "true", "null", "[]", "{}", "active", "terminal",
		"2026-11-20T00:00:00.000Z", "2026-13-45", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "+292277026596-12-04T15:30:07Z",
		"01a00000-0000-7000-8000-000000000000", "01A00000-0000-7000-8000-00000000000", "acme", "ACME", "member.*", "*", "%", "_", "'", "\"", "\\",
		";--",
		"\u0000", "\x00", "\xff\xfe", "\ud7ff\ue000", "😀", "İ", "ẞ", "\u202e", strings.Repeat("a", 300), strings.Repeat("9", 400),
		"../../etc/passwd", "${jndi}", "<script>",
	}
	oddParameters = []string{
		"status", "limit", "offset", "repo", "q", "range", "role", "from", "to", "actor", "actorType", "action", "target", "cursor", "format",
		"at", "seq", "fromSeq", "toSeq", "x", "",
	}
	oddHeaders = []string{
		"X-Svc-Tenant", "X-Request-Id", "Idempotency-Key", "If-None-Match", "Accept", "Accept-Encoding", "Content-Type", "Cookie", "Origin",
		"Sec-Fetch-Site", "User-Agent", "X-Forwarded-For", "Range", "Expect-Nothing", "X-Http-Method-Override",
	}
	oddFields = []string{"name", "scopes", "role", "canApproveLoops", "email", "slug", "repoId", "issueNumber", "title", "body", "action",
		"note", "expectedHead", "password"}
)

// request returns a request for one of the routes, with unusual parameters, headers and body.
func (f *fuzzer) request() (line, body string, headers []string) {
	line = f.pick(f.routes)
	if f.random.IntN(8) == 0 {
		line = "POST /api/auth/" +
			f.pick([]string{"sign-in/social", "organization/create", "organization/set-active", "organization/invite-member",
				"organization/update-member-role", "organization/leave", "revoke-session"})
	}
	line = strings.ReplaceAll(line, "{id}", url.PathEscape(f.pick(oddTexts)))
	query := url.Values{}
	for range f.random.IntN(4) {
		query.Add(f.pick(oddParameters), f.pick(oddTexts))
	}
	if len(query) > 0 {
		line += "?" + query.Encode()
	}
	for range f.random.IntN(3) {
		value := strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1 // net/http refuses to send it
			}
			return r
		}, f.pick(oddTexts))
		headers = append(headers, f.pick(oddHeaders)+": "+value)
	}
	if !strings.HasPrefix(line, "GET ") {
		body = f.value(3)
	}
	return line, body, headers
}

// value returns a JSON value, or text that is nearly one.
func (f *fuzzer) value(depth int) string {
	switch n := f.random.IntN(10); {
	case n < 5 && depth > 0:
		var parts []string
		for range f.random.IntN(4) {
			parts = append(parts, fmt.Sprintf("%q:%s", f.pick(oddFields), f.value(depth-1)))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case n < 6 && depth > 0:
		return "[" + f.value(depth-1) + "," + f.value(depth-1) + "]"
	case n < 9:
		return `"` + f.pick(oddTexts) + `"`
	}
	return f.pick(oddTexts)
}
