//go:build linux

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A deed is one command, however often it was sent, and what is known of it.
type deed struct {
	kind     string   // of the event that it makes
	requests []string // the request id of each time it was sent
	outcome  outcome
	position int64  // where the answer said it is in the log; 0 if no answer said so
	account  string // id, if an answer told it
	token    string // likewise
	member   string
	role     string
}

type outcome int

const (
	unknown      outcome = iota // no answer, or a 5xx
	acknowledged                // it is done
	refused                     // it is not done, and never will be
)

// writers write without a pause until they are told to stop.
type writers struct {
	stage   *stage
	members []string
	stop    context.CancelFunc
	group   sync.WaitGroup
	acks    [2]atomic.Int64 // of each replica
	strange atomic.Value    // an answer that nobody should get

	mu    sync.Mutex
	deeds []*deed
}

// startWriters lets n writers make and rotate service accounts and change
// roles, at both replicas in turn.
func startWriters(t *testing.T, s *stage, n int) *writers {
	t.Helper()
	w := &writers{stage: s}
	list := decode[struct{ Items []struct{ ID, Email string } }](t,
		s.owner.must(t, http.StatusOK, "GET", s.rest[0].url()+"/api/v1/members?limit=100", nil))
	for _, m := range list.Items {
		if m.Email != "ada@acme.example" { // who stays its Owner
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

// end stops the writers and returns all that they asked for.
func (w *writers) end(t *testing.T) []*deed {
	t.Helper()
	w.stop()
	w.group.Wait()
	require.Nil(t, w.strange.Load())
	return w.deeds
}

func (w *writers) write(ctx context.Context, i int) {
	roles := []string{"Viewer", "Maintainer", "Owner"}
	for n := 0; ctx.Err() == nil; n++ {
		made := w.do(ctx, i+n, i, &deed{kind: "service_account.created"}, "POST", "/service-accounts",
			map[string]any{"name": fmt.Sprintf("w%d-%d", i, n), "scopes": []string{"api.read"}})
		if made.account != "" {
			for turn := range 2 {
				w.do(ctx, i+n+turn, i, &deed{kind: "service_account.rotated", account: made.account}, "POST",
					"/service-accounts/"+made.account+"/rotate", nil)
			}
		}
		member, role := w.members[(i+n)%len(w.members)], roles[(i+n/2)%len(roles)]
		w.do(ctx, i+n, i, &deed{kind: "member.role_changed", member: member, role: role}, "PATCH", "/members/"+member,
			map[string]any{"role": role})
	}
}

// do sends a command. Every second writer uses an idempotency key where there
// is one, and sends the command again until its outcome is known.
func (w *writers) do(ctx context.Context, turn, writer int, d *deed, method, path string, body any) *deed {
	key := w.note(d)
	insist := writer%2 == 0 && d.role == ""
	for try := 0; ; try++ {
		id := fmt.Sprintf("%s.%d", key, try)
		d.requests = append(d.requests, id)
		headers := []string{"X-Request-Id", id}
		if insist {
			headers = append(headers, "Idempotency-Key", key)
		}
		at := (turn + try) % len(w.stage.rest)
		a, err := w.stage.owner.send(method, w.stage.rest[at].url()+"/api/v1"+path, body, headers...)
		w.judge(d, a, err)
		if d.outcome == acknowledged {
			w.acks[at].Add(1)
		}
		if d.outcome != unknown || !insist || ctx.Err() != nil {
			break
		}
	}
	if d.outcome == unknown {
		select { // the service is down: no use in hammering it
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return d
}

// note adds a deed that is about to be done, and returns a name for it.
func (w *writers) note(d *deed) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deeds = append(w.deeds, d)
	return fmt.Sprintf("deed-%d", len(w.deeds))
}

// judge sorts the outcomes out.
func (w *writers) judge(d *deed, a answer, err error) {
	switch {
	case err != nil || a.status == http.StatusServiceUnavailable:
		return
	case a.status < http.StatusMultipleChoices:
		d.outcome, d.position = acknowledged, a.position
		var c created
		if d.role == "" && json.Unmarshal(a.body, &c) == nil {
			d.account, d.token = c.Account.ID, c.Token
		}
	case a.code() == "token_already_shown": // the answer to an earlier time was lost
		d.outcome = acknowledged
	case a.code() == "conflict":
		d.outcome = refused
	default:
		d.outcome = refused
		w.strange.Store(fmt.Sprintf("%s: %d %s", d.kind, a.status, a.body))
	}
}
