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

// A right is a register that some clients set and others use: the token of an account, or a
// member's role. A use is correct if its answer agrees with a value that the right had at some
// moment between its request and its answer.
type (
	setRight struct{ value string }
	useRight struct{ token string } // "" if the caller has a session
)

// rightModel is the model that porcupine checks a history against. wantStatus returns the
// status of a use for a value of the right.
func rightModel(wantStatus func(value string, u useRight) int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(value, in, out any) (bool, any) {
			switch in := in.(type) {
			case setRight:
				return true, out.(string)
			case useRight:
				return out.(int) == wantStatus(value.(string), in), value
			}
			return false, value
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %v", in, out) },
	}
}

// A history records operations with the times of their requests and answers.
type history struct {
	mu    sync.Mutex
	began time.Time
	list  []porcupine.Operation
}

func (h *history) record(client int, in any, do func() any) {
	call := time.Since(h.began).Nanoseconds()
	out := do()
	answered := time.Since(h.began).Nanoseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: answered})
}

// An attempt uses the right at a replica and returns the status of the answer.
type attempt func(replica int, u useRight) int

// withCache simulates a cache in front of a replica, with entries that live for so long. It sends
// each request even so: users who get cached answers at once would make a history a thousand
// times as long, too long to check.
func withCache(send attempt, ttl time.Duration) attempt {
	type remembered struct {
		answer int
		until  time.Time
	}
	var mu sync.Mutex
	known := map[string]remembered{}
	return func(replica int, u useRight) int {
		asked := time.Now()
		answer := send(replica, u)
		mu.Lock()
		defer mu.Unlock()
		key := fmt.Sprint(replica, u)
		if r, ok := known[key]; ok && asked.Before(r.until) {
			return r.answer
		}
		known[key] = remembered{answer, asked.Add(ttl)}
		return answer
	}
}

// A rightTest is a right, and functions that set and use it.
type rightTest struct {
	change     func(replica, n int) string // sets the right for the n-th time and returns its new value
	attempt    attempt
	wantStatus func(value string, u useRight) int
	nextUse    func(value string) useRight // a use while the right may have value
	first      string
	changers   int // concurrent ones; with few values, more than one would hide errors
}

// check sets and uses the right concurrently, at both replicas in turn, and checks the history.
func (c rightTest) check(t *testing.T) porcupine.CheckResult {
	const changes, users = 30, 4
	h := &history{began: time.Now()}
	var mu sync.Mutex
	values := []string{c.first} // of the right so far
	h.record(users, setRight{c.first}, func() any { return c.first })
	over, used := make(chan struct{}), make(chan struct{})
	var changing, using sync.WaitGroup
	for i := range c.changers {
		changing.Go(func() {
			for n := range changes {
				h.record(users+1+i, setRight{}, func() any {
					to := c.change((i+n)%2, i*changes+n)
					mu.Lock()
					values = append(values, to)
					mu.Unlock()
					return to
				})
				for range 2 * users { // during a change any answer is correct
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
				value := values[max(0, len(values)-1-(n+i)%3)]
				mu.Unlock()
				u := c.nextUse(value)
				h.record(i, u, func() any { return c.attempt((i+n)%2, u) })
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
	result := porcupine.CheckOperationsTimeout(rightModel(c.wantStatus), h.list, waitLimit)
	answers := map[any]int{}
	for _, o := range h.list {
		if _, ok := o.Input.(useRight); ok {
			answers[o.Output]++
		}
	}
	if result == porcupine.Ok {
		require.Len(t, answers, 2, "two statuses, accepted and refused: %v", answers)
	}
	return result
}

// TestARightEndsAtOnce requires that the replicas are linearizable: once one of them has confirmed
// that a token was rotated, an account revoked, a role taken away, a member removed or a workspace deleted, the other
// refuses them as well. The same check must detect a cache of 40 ms, or of longer where every answer
// takes as long as that.
func TestARightEndsAtOnce(t *testing.T) {
	t.Parallel()
	s := newDeployment(t)
	for name, make := range map[string]func(*testing.T, *deployment) rightTest{
		"rotated": tokenRight, "revoked": accountRight, "demoted": roleRight, "removed": memberRight, "workspace deleted": workspaceRight,
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, porcupine.Ok, make(t, s).check(t))
			for long := 40 * time.Millisecond; ; long *= 2 {
				require.Less(t, long, 5*time.Second, "no cache is detected")
				cached := make(t, s)
				cached.attempt = withCache(cached.attempt, long)
				if cached.check(t) == porcupine.Illegal {
					break
				}
			}
		})
	}
	s.stop()
}

// tokenRight rotates the token of an account, and uses the newest tokens and those before.
func tokenRight(t *testing.T, s *deployment) rightTest {
	made := createAccount(t, s.owner, s.rest[0].url(), uniqueAccountName())
	return rightTest{
		first: made.Token, changers: 2,
		change: func(replica, _ int) string {
			a := sendUntilNoConflict(t, s.owner, http.StatusOK, "POST", s.rest[replica].url()+accountsPath+"/"+made.Account.ID+"/rotate", nil)
			return decode[createdAccount](t, a).Token
		},
		attempt:    attemptRead(t, s),
		nextUse:    func(value string) useRight { return useRight{value} },
		wantStatus: statusOfToken,
	}
}

// accountRight rotates the token of an account, revokes the account, and creates another one. It uses the newest
// token.
func accountRight(t *testing.T, s *deployment) rightTest {
	made := createAccount(t, s.owner, s.rest[0].url(), uniqueAccountName())
	var last atomic.Value // token
	last.Store(made.Token)
	return rightTest{
		first: made.Token, changers: 1,
		change: func(replica, n int) string {
			url := s.rest[replica].url() + accountsPath
			switch n % 3 {
			case 0:
				rotated := sendUntilNoConflict(t, s.owner, http.StatusOK, "POST", url+"/"+made.Account.ID+"/rotate", nil)
				made.Token = decode[createdAccount](t, rotated).Token
			case 1:
				sendUntilNoConflict(t, s.owner, http.StatusOK, "POST", url+"/"+made.Account.ID+"/revoke", nil)
				return ""
			case 2:
				another := map[string]any{"name": uniqueAccountName(), "scopes": []string{"api.read"}}
				made = decode[createdAccount](t, sendUntilNoConflict(t, s.owner, http.StatusCreated, "POST", url, another))
			}
			last.Store(made.Token)
			return made.Token
		},
		attempt:    attemptRead(t, s),
		nextUse:    func(string) useRight { return useRight{last.Load().(string)} },
		wantStatus: statusOfToken,
	}
}

// roleRight gives and takes a role that may list service accounts.
func roleRight(t *testing.T, s *deployment) rightTest {
	mia, id := signInMember(t, s, "mia@acme.example")
	give := func(replica int, role string) string {
		sendUntilNoConflict(t, s.owner, http.StatusOK, "PATCH", s.rest[replica].url()+membersPath+"/"+id, map[string]any{"role": role})
		return role
	}
	return rightTest{
		first: give(0, "Maintainer"), changers: 1,
		change: func(replica, n int) string { return give(replica, []string{"Viewer", "Maintainer"}[n%2]) },
		attempt: func(replica int, _ useRight) int {
			return sendUntilNoConflict(t, mia, 0, "GET", s.rest[replica].url()+accountsPath, nil).status
		},
		nextUse: func(string) useRight { return useRight{} },
		wantStatus: func(value string, _ useRight) int {
			if value == "Maintainer" {
				return http.StatusOK
			}
			return http.StatusForbidden
		},
	}
}

// memberRight removes a member, then invites them again and lets them accept.
func memberRight(t *testing.T, s *deployment) rightTest {
	const email = "vera@acme.example"
	vera, id := signInMember(t, s, email)
	return rightTest{
		first: "member", changers: 1,
		change: func(replica, n int) string {
			url := s.rest[replica].url()
			if n%2 == 0 {
				sendUntilNoConflict(t, s.owner, http.StatusNoContent, "DELETE", url+membersPath+"/"+id, nil)
				return "stranger"
			}
			invited := decode[struct{ ID string }](t,
				sendUntilNoConflict(t, s.owner, http.StatusCreated, "POST", url+"/api/v1/invitations", map[string]any{"email": email}))
			joined := sendUntilNoConflict(t, vera, http.StatusOK, "POST", url+"/api/auth/organization/accept-invitation",
				map[string]any{"invitationId": invited.ID})
			id = decode[struct{ Member struct{ ID string } }](t, joined).Member.ID
			return "member"
		},
		attempt: func(replica int, _ useRight) int {
			return sendUntilNoConflict(t, vera, 0, "GET", s.rest[replica].url()+"/api/v1/workspace", nil).status
		},
		nextUse: func(string) useRight { return useRight{} },
		wantStatus: func(value string, _ useRight) int {
			if value == "member" {
				return http.StatusOK
			}
			return http.StatusNotFound
		},
	}
}

// workspaceRight deletes a workspace and restores it, while a token of it reads.
func workspaceRight(t *testing.T, s *deployment) rightTest {
	slug := uniqueAccountName()
	s.owner.expect(t, http.StatusOK, "POST", s.rest[0].url()+"/api/auth/organization/create", map[string]any{"name": "Contest", "slug": slug})
	owner := s.owner
	owner.tenant = slug
	made := createAccount(t, owner, s.rest[0].url(), uniqueAccountName())
	return rightTest{
		first: "there", changers: 1,
		change: func(replica, n int) string {
			url := s.rest[replica].url() + "/api/v1/workspace"
			if n%2 == 0 {
				sendUntilNoConflict(t, owner, http.StatusOK, "POST", url+"/delete", map[string]any{"name": "Contest"})
				return "deleted"
			}
			sendUntilNoConflict(t, owner, http.StatusOK, "POST", url+"/restore", nil)
			return "there"
		},
		attempt: attemptRead(t, s),
		nextUse: func(string) useRight { return useRight{token: made.Token} },
		wantStatus: func(value string, _ useRight) int {
			if value == "there" {
				return http.StatusOK
			}
			return http.StatusNotFound
		},
	}
}

const (
	accountsPath = "/api/v1/service-accounts"
	membersPath  = "/api/v1/members"
)

// uniqueAccountName returns a name that no other service account has.
func uniqueAccountName() string { return fmt.Sprintf("contest-%d", time.Now().UnixNano()%1e9) }

// sendUntilNoConflict repeats a request while it is answered with a conflict. It requires a status unless that
// is 0.
func sendUntilNoConflict(t *testing.T, c caller, status int, method, url string, body any) answer {
	for {
		a, err := c.send(method, url, body)
		if err == nil && a.status == http.StatusConflict && a.code() == "conflict" {
			continue
		}
		if err != nil || status != 0 && a.status != status {
			t.Errorf("%s %s: %d %s, %v", method, url, a.status, a.body, err) // require may not be called on this goroutine
		}
		return a
	}
}

// signInMember signs in a member of acme and returns their member id.
func signInMember(t *testing.T, s *deployment, email string) (c caller, id string) {
	t.Helper()
	for _, p := range newSeededInstallation(t).dev().People {
		if p.Email == email && p.WorkspaceSlug == "acme" {
			c = signIn(t, s.rest[0].url(), p)
		}
	}
	list := decode[struct{ Items []struct{ ID, Email string } }](t,
		s.owner.expect(t, http.StatusOK, "GET", s.rest[0].url()+membersPath+"?limit=100", nil))
	for _, m := range list.Items {
		if m.Email == email {
			id = m.ID
		}
	}
	require.NotEmpty(t, id)
	return c, id
}

// attemptRead reads runs with a token.
func attemptRead(t *testing.T, s *deployment) attempt {
	return func(replica int, u useRight) int {
		return sendUntilNoConflict(t, byToken(u.token), 0, "GET", s.rest[replica].url()+"/api/v1/runs?status=active&limit=1", nil).status
	}
}

// statusOfToken returns the status of a request with a token while value is the account's token.
func statusOfToken(value string, u useRight) int {
	if value == u.token {
		return http.StatusOK
	}
	return http.StatusUnauthorized
}
