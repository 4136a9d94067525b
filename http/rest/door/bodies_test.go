package door

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/http/fair"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/http/rest/schema"
)

// The slots bound the bytes of bodies in memory, however many large bodies are sent at once; a person
// may have a quarter of them. The server sends no 100 Continue without slots.
func TestBodyBytesInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	const requests = 60
	row := Route{Method: http.MethodPost, Limits: middleware.Limits{Body: 4 * SlotBytes}}
	workspace := events.NewID(epoch)
	one := someone(workspace)
	again := func() *Caller {
		return &Caller{Person: one.Person, Envelope: one.Envelope, Workspace: events.NewID(epoch)}
	}
	for name, c := range map[string]struct {
		caller   func() *Caller
		length   string
		admitted int
		refusal  string
	}{
		"of a person":       {again, "Content-Length: 524288", 4, "429 Too Many Requests"},
		"that are small":    {again, "Content-Length: 100", 16, "429 Too Many Requests"},
		"of unknown length": {again, "Transfer-Encoding: chunked", 4, "429 Too Many Requests"},
		"of a workspace":    {func() *Caller { return someone(workspace) }, "Content-Length: 524288", 16, "503 Service Unavailable"},
		"of everybody": {func() *Caller { return someone(events.NewID(epoch)) }, "Content-Length: 524288", 16,
			"503 Service Unavailable"},
		"of everybody, half as large": {func() *Caller { return someone(events.NewID(epoch)) }, "Content-Length: 262144", 32,
			"503 Service Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Door{Bounds: &Bounds{
				bodies: fair.New(fair.Bound{Name: "bodies", Slots: 64, Retry: 3 * time.Second}),
				writes: fair.New(fair.Bound{Name: "writes", Slots: 1000}),
			}}
			server := httptest.NewServer(middleware.Limited(row.Limits, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				caller := c.caller()
				defer caller.ReleaseSlots()
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

type naming struct{ Body struct{ Name *string } }

func (in *naming) toCommand(c *Caller, _ events.ID) (commands.RenameWorkspace, error) {
	return commands.RenameWorkspace{Meta: c.Meta(), Name: in.Body.Name}, nil
}

func (*naming) rename(context.Context, *naming, commands.RenameWorkspace) (*schema.Position, error) {
	return nil, nil
}

// The body of a refused request is read for the record of the refusal, but only with a slot.
func TestDenialNeedsSlotForBody(t *testing.T) {
	t.Parallel()
	s := &Door{Bounds: &Bounds{bodies: fair.New(fair.Bound{Name: "bodies", Slots: 4, Retry: 3 * time.Second})}}
	c := someone(events.NewID(epoch))
	require.NoError(t, s.HoldSlot(t.Context(), s.Bounds.bodies, c))
	body := strings.NewReader(`{"name":"x"}`)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
	row := Command((*naming).toCommand, (&naming{}).rename, Route{Method: http.MethodPost})
	again := &Caller{Person: c.Person, Envelope: c.Envelope, Workspace: events.NewID(epoch)}
	err := s.deny(httptest.NewRecorder(), r, row, again, errPrincipalRefused)
	require.ErrorIs(t, err, fair.ErrShare)
	require.Equal(t, 12, body.Len(), "the body must not be read")
}

// patient returns a semaphore in which requests wait, and competitors count, for as long as a test takes.
func patient(s *fair.Semaphore) *fair.Semaphore {
	b := s.Bound()
	b.Wait = testTimeout
	if b.IdleAfter > 0 {
		b.IdleAfter = testTimeout
	}
	return fair.New(b)
}

// Bodies that do not arrive, and answers that nobody reads, hold up nobody but their caller.
func TestSlowClientHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	s := &Door{Bounds: newBounds()}
	for _, b := range []**fair.Semaphore{&s.Bounds.bodies, &s.Bounds.reads} {
		*b = patient(*b)
	}
	workspace := events.NewID(epoch)
	slow, other := someone(workspace), someone(workspace)
	log := slog.New(slog.DiscardHandler)
	row := Route{Method: http.MethodPost}
	done := make(chan struct{})
	server := httptest.NewServer(middleware.Limited(row.Limits, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &Caller{Person: slow.Person, Envelope: slow.Envelope, Workspace: workspace}
		if r.Method == http.MethodPost {
			defer c.ReleaseSlots()
			if err := s.bufferBody(w, r, row, c); err != nil {
				reply.Error(w, r, log, err)
			}
			return
		}
		if s.HoldSlot(r.Context(), s.Bounds.reads, c) == nil {
			ReleaseWorkspace(WithCaller(r.Context(), c)) // as when an answer is encoded
			<-done                                       // as if it could not be written
		}
		c.ReleaseSlots()
	})))
	defer server.Close()
	defer close(done)
	address := strings.TrimPrefix(server.URL, "http://")
	require.NoError(t, s.HoldSlot(t.Context(), s.Bounds.reads, someone(events.NewID(epoch))), "competition: nobody is idle")
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
		bodies, moreBodies, _ := s.Bounds.bodies.Usage()
		reads, moreReads, _ := s.Bounds.reads.Usage()
		return bodies == maxBodySlots && moreBodies == 40-bodies && reads == partyShare() && moreReads == 41-reads
	}, time.Minute, time.Millisecond)
	for range partyShare() {
		require.NoError(t, s.HoldSlot(t.Context(), s.Bounds.writes, other))
	}
	for range partyShare() - 1 {
		require.NoError(t, s.HoldSlot(t.Context(), s.Bounds.reads, other))
	}
}
