package rest

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/http/middleware"
	"svc/http/quota"
	"svc/http/reply"
)

// The largest body of any route needs no more slots than the share of one caller on the smallest
// machine. Otherwise nobody could send it.
func TestLargestBodiesFitShare(t *testing.T) {
	t.Parallel()
	const least = 4 // of partyShare
	for _, section := range New(Config{}).sections() {
		for _, r := range section.routes {
			slots := bodySlots(&http.Request{ContentLength: -1}, r.limits)
			require.LessOrEqual(t, slots, least, "%s %s", r.method, r.path)
			require.LessOrEqual(t, int64(slots-1)*slotBytes, r.limits.OrDefault().Body)
		}
	}
	require.Equal(t, 1, bodySlots(&http.Request{ContentLength: 0}, middleware.Limits{}))
	require.Equal(t, 1, bodySlots(&http.Request{ContentLength: slotBytes}, middleware.Limits{Body: 4 * slotBytes}))
	require.Equal(t, 2, bodySlots(&http.Request{ContentLength: slotBytes + 1}, middleware.Limits{Body: 4 * slotBytes}))
	require.Equal(t, 4, bodySlots(&http.Request{ContentLength: -1}, middleware.Limits{Body: 4 * slotBytes}))
}

// The slots bound the bytes of bodies in memory, however many large bodies are sent at once; a person
// may have a quarter of them. The server sends no 100 Continue without slots.
func TestBodyBytesInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	const requests = 60
	row := route{method: http.MethodPost, limits: middleware.Limits{Body: 4 * slotBytes}}
	workspace := events.NewID(epoch)
	one := someone(workspace)
	again := func() *caller {
		return &caller{person: one.person, envelope: one.envelope, workspace: events.NewID(epoch)}
	}
	for name, c := range map[string]struct {
		caller   func() *caller
		length   string
		admitted int
		refusal  string
	}{
		"of a person":       {again, "Content-Length: 524288", 4, "429 Too Many Requests"},
		"that are small":    {again, "Content-Length: 100", 16, "429 Too Many Requests"},
		"of unknown length": {again, "Transfer-Encoding: chunked", 4, "429 Too Many Requests"},
		"of a workspace":    {func() *caller { return someone(workspace) }, "Content-Length: 524288", 16, "503 Service Unavailable"},
		"of everybody": {func() *caller { return someone(events.NewID(epoch)) }, "Content-Length: 524288", 16,
			"503 Service Unavailable"},
		"of everybody, half as large": {func() *caller { return someone(events.NewID(epoch)) }, "Content-Length: 262144", 32,
			"503 Service Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Server{bounds: bounds{
				bodies: quota.New(quota.Bound{Name: "bodies", Slots: 64, Retry: 3 * time.Second}),
				writes: quota.New(quota.Bound{Name: "writes", Slots: 1000}),
			}}
			server := httptest.NewServer(middleware.Limited(row.limits, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				caller := c.caller()
				defer caller.releaseSlots()
				if err := s.bufferBody(w, r, row, caller); err != nil {
					reply.Error(w, r, slog.New(slog.DiscardHandler), err)
				}
			})))
			defer server.Close()
			address := strings.TrimPrefix(server.URL, "http://")
			answers := make(chan string, requests)
			for range requests {
				conn, err := net.Dial("tcp", address)
				require.NoError(t, err)
				defer conn.Close()
				_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\n%s\r\n\r\n", address, c.length)
				require.NoError(t, err)
				go func() {
					line, _ := bufio.NewReader(conn).ReadString('\n')
					answers <- strings.TrimSpace(line)
				}()
			}
			got := map[string]int{}
			for range requests {
				got[<-answers]++
			}
			require.Equal(t, map[string]int{"HTTP/1.1 100 Continue": c.admitted, "HTTP/1.1 " + c.refusal: requests - c.admitted}, got)
		})
	}
}

// The body of a refused request is read for the record of the refusal, but only with a slot.
func TestDenialNeedsSlotForBody(t *testing.T) {
	t.Parallel()
	s := &Server{bounds: bounds{bodies: quota.New(quota.Bound{Name: "bodies", Slots: 4, Retry: 3 * time.Second})}}
	c := someone(events.NewID(epoch))
	require.NoError(t, s.acquireSlotFor(t.Context(), s.bounds.bodies, c))
	body := strings.NewReader(`{"name":"x"}`)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	row := command((*newIssue).toCommand, s.queueIssue, route{method: http.MethodPost})
	again := &caller{person: c.person, envelope: c.envelope, workspace: events.NewID(epoch)}
	err := s.deny(httptest.NewRecorder(), r, row, again, errPrincipalRefused)
	require.ErrorIs(t, err, quota.ErrShare)
	require.Equal(t, 12, body.Len(), "the body must not be read")
}

// patient returns a semaphore in which requests wait, and competitors count, for as long as a test takes.
func patient(s *quota.Semaphore) *quota.Semaphore {
	b := s.Bound()
	b.Wait = testTimeout
	if b.IdleAfter > 0 {
		b.IdleAfter = testTimeout
	}
	return quota.New(b)
}

// Bodies that do not arrive, and answers that nobody reads, hold up nobody but their caller.
func TestSlowClientHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	s := &Server{bounds: newBounds()}
	for _, b := range []**quota.Semaphore{&s.bounds.bodies, &s.bounds.reads} {
		*b = patient(*b)
	}
	workspace := events.NewID(epoch)
	slow, other := someone(workspace), someone(workspace)
	log := slog.New(slog.DiscardHandler)
	row := route{method: http.MethodPost}
	done := make(chan struct{})
	server := httptest.NewServer(middleware.Limited(row.limits, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &caller{person: slow.person, envelope: slow.envelope, workspace: workspace}
		if r.Method == http.MethodPost {
			defer c.releaseSlots()
			if err := s.bufferBody(w, r, row, c); err != nil {
				reply.Error(w, r, log, err)
			}
			return
		}
		if s.acquireSlotFor(r.Context(), s.bounds.reads, c) == nil {
			c.releaseWorkspace() // as when an answer is encoded
			<-done               // as if it could not be written
		}
		c.releaseSlots()
	})))
	defer server.Close()
	defer close(done)
	address := strings.TrimPrefix(server.URL, "http://")
	require.NoError(t, s.acquireSlotFor(t.Context(), s.bounds.reads, someone(events.NewID(epoch))), "competition: nobody is idle")
	for range 40 {
		for _, begin := range []string{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n{", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
			conn, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Write([]byte(begin))
			require.NoError(t, err)
		}
	}
	require.Eventually(t, func() bool {
		bodies, moreBodies, _ := s.bounds.bodies.Usage()
		reads, moreReads, _ := s.bounds.reads.Usage()
		return bodies == maxBodySlots && moreBodies == 40-bodies && reads == partyShare() && moreReads == 41-reads
	}, time.Minute, time.Millisecond)
	for range partyShare() {
		require.NoError(t, s.acquireSlotFor(t.Context(), s.bounds.writes, other))
	}
	for range partyShare() - 1 {
		require.NoError(t, s.acquireSlotFor(t.Context(), s.bounds.reads, other))
	}
}
