//go:build linux

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// A sentCommand is one command, however often it was sent, and what is known of its outcome.
type sentCommand struct {
	kind     string   // of the event that it appends
	requests []string // the request id of each time it was sent
	outcome  outcome
	position int64  // in the log by its answer; 0 without one
	account  string // id, if known from an answer
	token    string // likewise
	member   string
	role     string
}

type outcome int

const (
	unknown      outcome = iota // no answer, or a 5xx
	acknowledged                // done
	refused                     // not done, and never will be
)

// writers send commands until they are stopped, as fast as requestRate allows.
type writers struct {
	deployment *deployment
	members    []string
	pace       *rate.Limiter // of all writers, and of the local worker, together
	stop       context.CancelFunc
	group      sync.WaitGroup
	acks       [2]atomic.Int64 // of each replica
	unexpected atomic.Value    // an answer that fails the test

	mu   sync.Mutex
	sent []*sentCommand
}

// requestRate is how many commands writers send, or requests readers, per second. Without a limit they would
// take all processors from the other tests; make chaos has none. Repetitions of a command are not counted.
func requestRate() rate.Limit {
	if os.Getenv("SVC_CHAOS_SECONDS") != "" {
		return rate.Inf
	}
	return 200
}

// startWriters starts n writers that create and rotate service accounts and change roles, at
// both replicas in turn.
func startWriters(t *testing.T, s *deployment, n int) *writers {
	t.Helper()
	w := &writers{deployment: s, pace: rate.NewLimiter(requestRate(), 1)}
	list := decode[struct{ Items []struct{ ID, Email string } }](t,
		s.owner.expect(t, http.StatusOK, "GET", s.rest[0].url()+"/api/v1/members?limit=100", nil))
	for _, m := range list.Items {
		if m.Email != "ada@acme.example" { // stays Owner
			w.members = append(w.members, m.ID)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	for i := range n {
		w.group.Go(func() { w.write(ctx, i) })
	}
	t.Cleanup(func() { stop(); w.group.Wait() })
	return w
}

// finish stops the writers and returns all commands that they sent.
func (w *writers) finish(t *testing.T) []*sentCommand {
	t.Helper()
	w.stop()
	w.group.Wait()
	require.Nil(t, w.unexpected.Load())
	return w.sent
}

// write creates an account, rotates its token twice and changes a member's role, until ctx ends.
func (w *writers) write(ctx context.Context, i int) {
	roles := []string{"Viewer", "Maintainer", "Owner"}
	for n := 0; ctx.Err() == nil; n++ {
		made := w.send(ctx, i+n, i, &sentCommand{kind: "service_account.created"}, "POST", "/service-accounts",
			map[string]any{"name": fmt.Sprintf("w%d-%d", i, n), "scopes": []string{"api.read"}})
		if made.account != "" {
			for turn := range 2 {
				w.send(ctx, i+n+turn, i, &sentCommand{kind: "service_account.rotated", account: made.account}, "POST",
					"/service-accounts/"+made.account+"/rotate", nil)
			}
		}
		member, role := w.members[(i+n)%len(w.members)], roles[(i+n/2)%len(roles)]
		w.send(ctx, i+n, i, &sentCommand{kind: "member.role_changed", member: member, role: role}, "PATCH", "/members/"+member,
			map[string]any{"role": role})
	}
}

// send sends a command. Every second writer uses an idempotency key where possible, and
// repeats the command until its outcome is known.
func (w *writers) send(ctx context.Context, turn, writer int, d *sentCommand, method, path string, body any) *sentCommand {
	_ = w.pace.Wait(ctx) // fails once ctx has ended: what the writer has begun is sent without a wait
	key := w.register(d)
	retry := writer%2 == 0 && d.role == ""
	for try := 0; ; try++ {
		id := fmt.Sprintf("%s.%d", key, try)
		d.requests = append(d.requests, id)
		headers := []string{"X-Request-Id", id}
		if retry {
			headers = append(headers, "Idempotency-Key", key)
		}
		at := (turn + try) % len(w.deployment.rest)
		a, err := w.deployment.owner.send(method, w.deployment.rest[at].url()+"/api/v1"+path, body, headers...)
		w.setOutcome(d, a, err)
		if d.outcome == acknowledged {
			w.acks[at].Add(1)
		}
		if d.outcome != unknown || !retry || ctx.Err() != nil {
			break
		}
	}
	if d.outcome == unknown {
		select { // pauses while the service is down
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return d
}

// register adds a command that is about to be sent, and returns an id for it.
func (w *writers) register(d *sentCommand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, d)
	return fmt.Sprintf("command-%d", len(w.sent))
}

// setOutcome sets the outcome of a command from an answer. It stays unknown after an error or a 503.
func (w *writers) setOutcome(d *sentCommand, a answer, err error) {
	switch {
	case err != nil || a.status == http.StatusServiceUnavailable:
		return
	case a.status < http.StatusMultipleChoices:
		d.outcome, d.position = acknowledged, a.position
		var c createdAccount
		if d.role == "" && json.Unmarshal(a.body, &c) == nil {
			d.account, d.token = c.Account.ID, c.Token
		}
	case a.code() == "token_already_shown": // an earlier answer was lost
		d.outcome = acknowledged
	case a.code() == "conflict":
		d.outcome = refused
	default:
		d.outcome = refused
		w.unexpected.Store(fmt.Sprintf("%s: %d %s", d.kind, a.status, a.body))
	}
}
