//go:build linux && !race

package run

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
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
	uses     func(stands string) use // worth a try while it may stand so
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
				u := c.uses(stands)
				h.note(i, u, func() any { return c.ask((i+n)%2, u) })
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
	result := porcupine.CheckOperationsTimeout(rights(c.answered), h.list, patience)
	answers := map[any]int{}
	for _, o := range h.list {
		if _, ok := o.Input.(use); ok {
			answers[o.Output]++
		}
	}
	if result == porcupine.Ok {
		require.Len(t, answers, 2, "some are let in, some are not, and nothing else: %v", answers)
	}
	return result
}

// TestARightEndsAtOnce shows that both replicas answer as one: a token that was
// rotated, an account that was revoked, a role that was taken away and a member
// who was removed are refused by each from the moment at which the other has
// confirmed it. The same test finds a cache of 40 ms; where every answer takes as
// long, that of a longer one.
func TestARightEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for name, make := range map[string]func(*testing.T, *stage) contest{
		"rotated": tokenContest, "revoked": accountContest, "demoted": roleContest, "removed": memberContest,
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, porcupine.Ok, make(t, s).play(t))
			for long := 40 * time.Millisecond; ; long *= 2 {
				require.Less(t, long, 5*time.Second, "a cache that nobody notices")
				cached := make(t, s)
				cached.ask = remembering(cached.ask, long)
				if cached.play(t) == porcupine.Illegal {
					break
				}
			}
		})
	}
	s.stop()
}

// tokenContest rotates the token of an account. The old and the new one are tried.
func tokenContest(t *testing.T, s *stage) contest {
	made := createAccount(t, s.owner, s.rest[0].url(), contestant())
	return contest{
		first: made.Token, changers: 2,
		change: func(replica, _ int) string {
			a := insist(t, s.owner, http.StatusOK, "POST", s.rest[replica].url()+accounts+"/"+made.Account.ID+"/rotate", nil)
			return decode[created](t, a).Token
		},
		ask:      readRuns(t, s),
		uses:     func(stands string) use { return use{stands} },
		answered: currentToken,
	}
}

// accountContest rotates the token of an account, revokes the account, and makes
// another one in its place. The last token that there was is tried.
func accountContest(t *testing.T, s *stage) contest {
	name := contestant()
	made := createAccount(t, s.owner, s.rest[0].url(), name)
	var last atomic.Value // token
	last.Store(made.Token)
	return contest{
		first: made.Token, changers: 1,
		change: func(replica, n int) string {
			url := s.rest[replica].url() + accounts
			switch n % 3 {
			case 0:
				made.Token = decode[created](t, insist(t, s.owner, http.StatusOK, "POST", url+"/"+made.Account.ID+"/rotate", nil)).Token
			case 1:
				insist(t, s.owner, http.StatusOK, "POST", url+"/"+made.Account.ID+"/revoke", nil)
				return ""
			case 2:
				made = decode[created](t,
					insist(t, s.owner, http.StatusCreated, "POST", url, map[string]any{"name": name, "scopes": []string{"api.read"}}))
			}
			last.Store(made.Token)
			return made.Token
		},
		ask:      readRuns(t, s),
		uses:     func(string) use { return use{last.Load().(string)} },
		answered: currentToken,
	}
}

// roleContest gives and takes a role that may see service accounts.
func roleContest(t *testing.T, s *stage) contest {
	mia, id := member(t, s, "mia@acme.example")
	give := func(replica int, role string) string {
		insist(t, s.owner, http.StatusOK, "PATCH", s.rest[replica].url()+members+"/"+id, map[string]any{"role": role})
		return role
	}
	return contest{
		first: give(0, "Maintainer"), changers: 1,
		change: func(replica, n int) string { return give(replica, []string{"Viewer", "Maintainer"}[n%2]) },
		ask: func(replica int, _ use) int {
			return insist(t, mia, 0, "GET", s.rest[replica].url()+accounts, nil).status
		},
		uses: func(string) use { return use{} },
		answered: func(stands string, _ use) int {
			if stands == "Maintainer" {
				return http.StatusOK
			}
			return http.StatusForbidden
		},
	}
}

// memberContest removes a member, who is then invited again and accepts.
func memberContest(t *testing.T, s *stage) contest {
	const email = "vera@acme.example"
	vera, id := member(t, s, email)
	return contest{
		first: "member", changers: 1,
		change: func(replica, n int) string {
			url := s.rest[replica].url()
			if n%2 == 0 {
				insist(t, s.owner, http.StatusNoContent, "DELETE", url+members+"/"+id, nil)
				return "stranger"
			}
			invited := decode[struct{ ID string }](t,
				insist(t, s.owner, http.StatusCreated, "POST", url+"/api/v1/invitations", map[string]any{"email": email}))
			joined := insist(t, vera, http.StatusOK, "POST", url+"/api/auth/organization/accept-invitation",
				map[string]any{"invitationId": invited.ID})
			id = decode[struct{ Member struct{ ID string } }](t, joined).Member.ID
			return "member"
		},
		ask: func(replica int, _ use) int {
			return insist(t, vera, 0, "GET", s.rest[replica].url()+"/api/v1/workspace", nil).status
		},
		uses: func(string) use { return use{} },
		answered: func(stands string, _ use) int {
			if stands == "member" {
				return http.StatusOK
			}
			return http.StatusNotFound
		},
	}
}

const (
	accounts = "/api/v1/service-accounts"
	members  = "/api/v1/members"
)

// contestant is a name that no other service account has.
func contestant() string { return fmt.Sprintf("contest-%d", time.Now().UnixNano()%1e9) }

// insist sends a request until nobody was faster. It has to be answered with a
// status, or with any if that is 0.
func insist(t *testing.T, c caller, status int, method, url string, body any) answer {
	for {
		a, err := c.send(method, url, body)
		if err == nil && a.status == http.StatusConflict && a.code() == "conflict" {
			continue
		}
		if err != nil || status != 0 && a.status != status {
			t.Errorf("%s %s: %d %s, %v", method, url, a.status, a.body, err) // not on the test's own goroutine
		}
		return a
	}
}

// member signs a member of acme in, and returns what their id is there.
func member(t *testing.T, s *stage, email string) (c caller, id string) {
	t.Helper()
	for _, p := range seededSite(t).dev().People {
		if p.Email == email && p.WorkspaceSlug == "acme" {
			c = signIn(t, s.rest[0].url(), p)
		}
	}
	list := decode[struct{ Items []struct{ ID, Email string } }](t,
		s.owner.must(t, http.StatusOK, "GET", s.rest[0].url()+members+"?limit=100", nil))
	for _, m := range list.Items {
		if m.Email == email {
			id = m.ID
		}
	}
	require.NotEmpty(t, id)
	return c, id
}

// readRuns uses a token.
func readRuns(t *testing.T, s *stage) asker {
	return func(replica int, u use) int {
		return insist(t, byToken(u.with), 0, "GET", s.rest[replica].url()+"/api/v1/runs?status=active&limit=1", nil).status
	}
}

// currentToken is how a token is answered.
func currentToken(stands string, u use) int {
	if stands == u.with {
		return http.StatusOK
	}
	return http.StatusUnauthorized
}
