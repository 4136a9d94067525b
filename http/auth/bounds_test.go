package auth_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/http/auth"
	"svc/http/fair"
	"svc/http/limit"
	"svc/sessions"
)

func withSlots(n int) func(*auth.Config) {
	return func(s *auth.Config) {
		s.Reads = fair.New(fair.Bound{Name: "reads", Slots: n, Retry: 3 * time.Second})
		s.Bodies = fair.New(fair.Bound{Name: "bodies", Slots: n, Retry: 3 * time.Second})
		s.Writes = fair.New(fair.Bound{Name: "writes", Slots: n, Retry: 3 * time.Second})
		s.SignIns = fair.New(fair.Bound{Name: "sign_ins", Slots: n, Retry: 3 * time.Second})
	}
}

// Callbacks have the rate limit of sign-ins.
func TestCallbacksAreLimited(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h), withLimit(t, 3))
	for name, c := range map[string]call{
		"an unknown state": {path: "/callback/github?state=random"},
		"no state":         {path: "/callback/github"},
		"a form":           {path: "/callback/github", media: "application/x-www-form-urlencoded", body: "state=x"},
	} {
		t.Run(name, func(t *testing.T) {
			b := s.browser()
			last := b.do(c)
			for range 3 {
				last = b.do(c)
			}
			last.requireRefused(429, "rate_limited")
			require.NotEmpty(t, last.Header.Get("Retry-After"))
			require.Equal(t, last.Header.Get("Retry-After"), last.Header.Get("X-Retry-After"))
		})
	}
	s.browser().begin("github") // which has a limit of its own
	require.NotContains(t, s.log.String(), `"level":"WARN"`, "anybody can invent a state")
}

func TestCallbackFormBodyIsLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t, withProvider(newHost(t)))
	body := "state=" + strings.Repeat("x", 8<<10)
	s.do(call{path: "/callback/github", media: "application/x-www-form-urlencoded", body: body}).requireRefused(413, "body_too_large")
}

// Every sign-in stays in the log, so a person has only so many of them in a day. The code host's callback says why.
func TestSignInsOfPersonAreLimited(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h), func(c *auth.Config) {
		c.Commands.Limit(commands.Daily{SignIns: 2, Counts: sessions.Daily{DB: c.Sessions.DB}})
	})
	cookie := s.signIn()
	s.signIn()
	a := s.do(call{path: "/sign-in/email", body: signInBody(email, password)})
	a.requireRefused(429, "rate_limited")
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	sessions := s.count("sessions")
	require.Equal(t, http.StatusOK, s.do(call{path: "/sign-out", body: "{}", cookie: cookie}).StatusCode)
	require.Equal(t, sessions-1, s.count("sessions"), "a refused sign-in leaves no session")

	b := s.browser()
	for range 2 {
		b.signIn(h).requireSentTo("/")
	}
	b.signIn(h).requireSentBack(s.errorPage(), reason("rate_limited"))
}

// A sign-out counts against its address before the cookie is looked up, but not against the limit of other
// requests.
func TestSignOutHasOwnLimit(t *testing.T) {
	t.Parallel()
	three, err := limit.PerMinute(3)
	require.NoError(t, err)
	s := newSite(t, func(c *auth.Config) { c.Limit = three })
	ended, cookie := s.signIn(), s.signIn()
	for range 4 {
		s.do(call{path: "/list-accounts", cookie: cookie})
	}
	s.do(call{path: "/list-accounts", cookie: cookie}).requireRefused(429, "rate_limited")
	for range 3 {
		require.Equal(t, http.StatusOK, s.do(call{path: "/sign-out", body: "{}", cookie: ended}).StatusCode)
	}
	a := s.do(call{path: "/sign-out", body: "{}", cookie: ended})
	a.requireRefused(429, "rate_limited")
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	require.Equal(t, http.StatusOK, s.do(call{path: "/sign-out", body: "{}"}).StatusCode, "no cookie, no look-up to limit")
}

// Requests with a session acquire slots from the shares of their person and workspace, as under /api/v1.
func TestRequestsAcquireSlots(t *testing.T) {
	t.Parallel()
	s := newSite(t, withSlots(4))
	cookie := s.signIn()
	calls := map[string]struct {
		bound *fair.Semaphore
		call  call
	}{
		"a list":      {s.config.Reads, call{path: "/organization/list", cookie: cookie}},
		"the session": {s.config.Reads, call{path: "/get-session", cookie: cookie}},
		"a form":      {s.config.Writes, call{path: "/organization/check-slug", body: `{"slug":"free"}`, cookie: cookie}},
	}
	for name, c := range calls {
		t.Run(name, func(t *testing.T) {
			for _, h := range []fair.Holder{
				{Person: s.person}, {Caller: s.person}, {Person: events.NewID(time.Now()), Workspace: s.home}, // active in the session
			} {
				slot, err := c.bound.Acquire(t.Context(), h)
				require.NoError(t, err)
				a := s.do(c.call)
				a.requireRefused(429, "rate_limited")
				require.Equal(t, "3", a.Header.Get("Retry-After"))
				require.Equal(t, "3", a.Header.Get("X-Retry-After"))
				slot.Release()
				require.Equal(t, http.StatusOK, s.do(c.call).StatusCode, "the slot must be released")
			}
			other, err := c.bound.Acquire(t.Context(), fair.Holder{Person: events.NewID(time.Now())})
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, s.do(c.call).StatusCode)
			other.Release()
			require.Eventually(t, func() bool { held, _, _ := c.bound.Usage(); return held == 0 }, time.Minute, time.Millisecond)
		})
	}
}

// Of the bodies that a person sends at once, only as many are read as their share allows. The server sends no
// 100 Continue for the others.
func TestConcurrentBodiesAreLimited(t *testing.T) {
	t.Parallel()
	const requests, most = 40, 16 / 4
	s := newSite(t, withSlots(16))
	cookie := s.signIn()
	answers := make(chan string, requests)
	for range requests {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /api/auth/organization/check-slug HTTP/1.1\r\nHost: %s\r\nCookie: %s=%s\r\n"+
			"Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 8000\r\n\r\n",
			strings.TrimPrefix(s.url, "http://"), cookie.Name, cookie.Value)
		require.NoError(t, err)
		go func() {
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil && err != io.EOF {
				line = err.Error()
			}
			answers <- strings.TrimSpace(line)
		}()
	}
	got := map[string]int{}
	for range requests {
		got[<-answers]++
	}
	require.Equal(t, map[string]int{"HTTP/1.1 100 Continue": most, "HTTP/1.1 429 Too Many Requests": requests - most}, got)
}

// Bodies of sign-ins that do not arrive, from however many addresses, make nobody else wait: neither people who
// have a session nor another person's sign-in.
func TestSlowSignInsHoldUpNobody(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"networks of one customer": "2001:db8:0:%x::7",
		"networks anywhere":        "2001:%x::7",
		"IPv4 addresses":           "192.0.2.%d",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, withSlots(4), withProvider(newHost(t)))
			cookie := s.signIn()
			for i := range 32 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				require.NoError(t, err)
				defer conn.Close()
				_, err = fmt.Fprintf(conn, "POST /api/auth/sign-in/social HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: "+address+"\r\n"+
					"Content-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 8000\r\n\r\n", i)
				require.NoError(t, err)
				_, err = bufio.NewReader(conn).ReadString('\n') // 100 Continue if the server reads the body, else a refusal
				require.NoError(t, err)
				_, err = conn.Write([]byte(`{"provid`))
				require.NoError(t, err)
			}
			slug := call{path: "/organization/check-slug", body: `{"slug":"free"}`, cookie: cookie}
			require.Equal(t, http.StatusOK, s.do(slug).StatusCode)
			social := call{path: "/sign-in/social", body: `{"provider":"github"}`, header: map[string]string{"X-Forwarded-For": "198.51.100.1"}}
			require.Equal(t, http.StatusOK, s.do(social).StatusCode)
		})
	}
}

// Sign-ins that take long hold up nobody who has a session, and those from one IPv6 network none from elsewhere.
func TestSignInsHaveSlotsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, withSlots(4), withProvider(newHost(t)))
	cookie := s.signIn()
	signIn := func(address string) answer {
		return s.do(call{path: "/sign-in/social", body: `{"provider":"github"}`, header: map[string]string{"X-Forwarded-For": address}})
	}
	lock, err := s.config.Sessions.DB.Begin(t.Context())
	require.NoError(t, err)
	defer lock.Rollback(t.Context())
	_, err = lock.Exec(t.Context(), "lock table oauth_states in access exclusive mode")
	require.NoError(t, err)
	ended := make(chan int)
	held := 0
	begin := func(address string) {
		go func() { ended <- signIn(address).StatusCode }()
		held++
		require.Eventually(t, func() bool { n, _, _ := s.config.SignIns.Usage(); return n == held }, time.Minute, time.Millisecond)
	}
	begin("2001:db8:1:1::7")
	signIn("2001:db8:1:3::7").requireRefused(429, "rate_limited")    // the same /56
	signIn("2001:db8:1:f103::7").requireRefused(429, "rate_limited") // the same /48
	begin("2001:db8:2:1::7")
	slug := call{path: "/organization/check-slug", body: `{"slug":"free"}`, cookie: cookie}
	require.Equal(t, http.StatusOK, s.do(slug).StatusCode)
	require.NoError(t, lock.Rollback(t.Context()))
	for range held {
		require.Equal(t, http.StatusOK, <-ended)
	}
}
