//go:build linux

package run

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// A right is set by some and used by others: who may come in is a token, or a
// role. A use is good if it is let in exactly as the right stands at some moment
// between its question and its answer.
type (
	set struct{ to string }
	use struct{ with string } // "" if the caller is known otherwise
)

// rights is what porcupine holds the answers against. answered says what a use
// is to be answered while a right stands.
func rights(answered func(stands string, u use) int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(stands, in, out any) (bool, any) {
			switch in := in.(type) {
			case set:
				return true, out.(string)
			case use:
				return out.(int) == answered(stands.(string), in), stands
			}
			return false, stands
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %v", in, out) },
	}
}

// A history notes who asked for what, and when that was answered.
type history struct {
	mu    sync.Mutex
	began time.Time
	list  []porcupine.Operation
}

func (h *history) note(client int, in any, do func() any) {
	call := time.Since(h.began).Nanoseconds()
	out := do()
	answered := time.Since(h.began).Nanoseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: answered})
}

// asker sends a use to a replica.
type asker func(replica int, u use) int

// remembering is what a cache of so long would do to the answers. The question
// is put all the same: users who need not wait would ask a thousand times as
// often, and nobody could judge so long a history.
func remembering(ask asker, long time.Duration) asker {
	type remembered struct {
		answer int
		until  time.Time
	}
	var mu sync.Mutex
	known := map[string]remembered{}
	return func(replica int, u use) int {
		asked := time.Now()
		answer := ask(replica, u)
		mu.Lock()
		defer mu.Unlock()
		key := fmt.Sprint(replica, u)
		if r, ok := known[key]; ok && asked.Before(r.until) {
			return r.answer
		}
		known[key] = remembered{answer, asked.Add(long)}
		return answer
	}
}

// A contest is a right, those who set it and those who use it.
type contest struct {
	change   func(replica, n int) string // sets the right for the n-th time, and returns what it is then
	ask      asker
	answered func(stands string, u use) int
	uses     func(stands string) []use // worth a try while it may stand so
	first    string
	changers int // with few states and many changes at once nobody can tell what is wrong
}

// play lets some change the right and others use it, at both replicas in turn.
func (c contest) play(t *testing.T) porcupine.CheckResult {
	const changes, users = 30, 4
	h := &history{began: time.Now()}
	var mu sync.Mutex
	lately := []string{c.first} // what the right was set to, the newest last
	h.note(users, set{c.first}, func() any { return c.first })
	over, used := make(chan struct{}), make(chan struct{})
	var changing, using sync.WaitGroup
	for i := range c.changers {
		changing.Go(func() {
			for n := range changes {
				h.note(users+1+i, set{}, func() any {
					to := c.change((i+n)%2, i*changes+n)
					mu.Lock()
					lately = append(lately, to)
					mu.Unlock()
					return to
				})
				for range 2 * users { // while one is being changed whatever they are answered is right
					<-used
				}
			}
		})
	}
	for i := range users {
		using.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				mu.Lock()
				stands := lately[max(0, len(lately)-1-(n+i)%3)]
				mu.Unlock()
				for _, u := range c.uses(stands) {
					h.note(i, u, func() any { return c.ask((i+n)%2, u) })
				}
				select {
				case used <- struct{}{}:
				default:
				}
			}
		})
	}
	changing.Wait()
	close(over)
	using.Wait()
	answers := map[any]int{}
	for _, o := range h.list {
		if _, ok := o.Input.(use); ok {
			answers[o.Output]++
		}
	}
	require.Len(t, answers, 2, "some are let in, some are not, and nothing else: %v", answers)
	return porcupine.CheckOperationsTimeout(rights(c.answered), h.list, patience)
}

// TestARightEndsAtOnce shows that both replicas answer as one: a token that was
// rotated and a role that was taken away are refused by each from the moment at
// which the other has confirmed it. The same test finds a cache of 40 ms.
func TestARightEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for name, make := range map[string]func(*testing.T, *stage) contest{"tokens": tokenContest, "roles": roleContest} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, porcupine.Ok, make(t, s).play(t))
			cached := make(t, s)
			cached.ask = remembering(cached.ask, 40*time.Millisecond)
			require.Equal(t, porcupine.Illegal, cached.play(t), "a cache that nobody notices")
		})
	}
	s.stop()
}

// tokenContest rotates the token of an account. The old and the new one are tried.
func tokenContest(t *testing.T, s *stage) contest {
	made := createAccount(t, s.owner, s.rest[0].url(), fmt.Sprintf("contest-%d", time.Now().UnixNano()%1e9))
	return contest{
		first: made.Token, changers: 2,
		change: func(replica, _ int) string {
			for {
				a, err := s.owner.send("POST", s.rest[replica].url()+"/api/v1/service-accounts/"+made.Account.ID+"/rotate", nil)
				if err == nil && a.status == http.StatusOK {
					return decode[created](t, a).Token
				}
				if err != nil || a.status != http.StatusConflict { // the other one was faster
					t.Errorf("rotate: %d %s, %v", a.status, a.body, err)
					return ""
				}
			}
		},
		ask: func(replica int, u use) int {
			a, err := byToken(u.with).send("GET", s.rest[replica].url()+"/api/v1/runs?status=active&limit=1", nil)
			if err != nil {
				t.Error(err)
			}
			return a.status
		},
		uses: func(stands string) []use { return []use{{stands}} },
		answered: func(stands string, u use) int {
			if stands == u.with {
				return http.StatusOK
			}
			return http.StatusUnauthorized
		},
	}
}

// roleContest gives and takes a role that may read the audit log.
func roleContest(t *testing.T, s *stage) contest {
	site := seededSite(t)
	var mia caller
	for _, p := range site.dev().People {
		if p.Email == "mia@acme.example" {
			mia = signIn(t, s.rest[0].url(), p)
			mia.tenant = "acme" // she is in two workspaces
		}
	}
	members := decode[struct{ Items []struct{ ID, Email string } }](t, s.owner.must(t, http.StatusOK, "GET", s.rest[0].url()+"/api/v1/members?limit=100", nil))
	id := ""
	for _, m := range members.Items {
		if m.Email == "mia@acme.example" {
			id = m.ID
		}
	}
	give := func(replica int, role string) string {
		for {
			a, err := s.owner.send("PATCH", s.rest[replica].url()+"/api/v1/members/"+id, map[string]any{"role": role})
			if err == nil && a.status == http.StatusOK {
				return role
			}
			if err != nil || a.status != http.StatusConflict {
				t.Errorf("change the role: %d %s, %v", a.status, a.body, err)
				return ""
			}
		}
	}
	return contest{
		first: give(0, "Maintainer"), changers: 1,
		change: func(replica, n int) string { return give(replica, []string{"Viewer", "Maintainer"}[n%2]) },
		ask: func(replica int, _ use) int {
			a, err := mia.send("GET", s.rest[replica].url()+"/api/v1/service-accounts", nil)
			if err != nil {
				t.Error(err)
			}
			return a.status
		},
		uses: func(string) []use { return []use{{}} },
		answered: func(stands string, _ use) int {
			if stands == "Maintainer" {
				return http.StatusOK
			}
			return http.StatusForbidden
		},
	}
}
