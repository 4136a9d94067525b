package hooks

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/config"
	"svc/credentials"
	"svc/events"
	"svc/events/store"
	"svc/http/limit"
	"svc/projections"
	"svc/test/pgtest"
	"svc/vault"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	patience = time.Minute
	secret   = "the-secret-of-the-hook"
	body     = `{"ref":"refs/heads/main"}`
)

// A receiver is a server with a repository that has a hook.
type receiver struct {
	*Server
	t         *testing.T
	commands  *commands.Handler
	by        commands.Meta
	repo      events.ID
	hook      events.ID
	looked    chan events.ID // at repositories
	presented string         // address
}

func newReceiver(t *testing.T, most int) *receiver {
	t.Helper()
	t.Parallel()
	db := pgtest.New(t)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	ring, err := vault.NewRing([]config.Secret{"the-key-that-the-database-does-not-have"})
	require.NoError(t, err)
	perMinute, err := limit.PerMinute(most)
	require.NoError(t, err)
	r := &receiver{t: t, commands: commands.New(log, time.Now), repo: events.NewID(time.Now()), looked: make(chan events.ID, 100)}
	r.by = commands.Meta{Workspace: events.NewID(time.Now()), Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem}}}
	r.Server = New(Config{
		Keys: log, Credentials: credentials.Store{Vault: vault.Secrets{DB: db, Ring: ring}, Repo: r.commands.Repo},
		Deliveries: Deliveries{db}, Limit: perMinute, Look: func(_ context.Context, _, repo events.ID) { r.looked <- repo },
		Log: slog.New(slog.DiscardHandler),
	})
	_, err = r.commands.ConnectRepo(t.Context(), commands.ConnectRepo{
		Meta: r.by, Repo: r.repo, Name: "acme/web", Settings: events.RepoSettings{Branch: "main"},
		Host: events.RepoHost{Kind: events.HostGit, Clone: "https://git.acme.example/acme/web.git"},
	})
	require.NoError(t, err)
	r.hook = r.setHook(secret)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	site := httptest.NewServer(r.Handler())
	t.Cleanup(site.Close)
	r.presented = site.URL
	return r
}

// setHook gives the repository a hook.
func (r *receiver) setHook(secret string) events.ID {
	r.t.Helper()
	id := events.NewID(time.Now())
	require.NoError(r.t, r.Credentials.Put(r.t.Context(), r.by.Workspace, id, secret))
	_, _, err := r.commands.SetRepoHook(r.t.Context(), commands.SetRepoHook{Meta: r.by, Repo: r.repo, Hook: id})
	require.NoError(r.t, err)
	return id
}

func signature(secret, body string) string {
	code := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(code, body)
	return "sha256=" + hex.EncodeToString(code.Sum(nil))
}

// send sends a delivery and returns the status and the body of the answer.
func (r *receiver) send(hook, body, signature, delivery string) (int, string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.presented+Prefix+hook, strings.NewReader(body))
	require.NoError(r.t, err)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-Hub-Signature-256", signature)
	q.Header.Set("X-GitHub-Delivery", delivery)
	q.Header.Set("X-GitHub-Event", "push")
	a, err := http.DefaultClient.Do(q)
	require.NoError(r.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(r.t, err)
	return a.StatusCode, string(text)
}

// tell sends a delivery that is right.
func (r *receiver) tell(delivery string) {
	r.t.Helper()
	status, text := r.send(r.hook.String(), body, signature(secret, body), delivery)
	require.Equal(r.t, http.StatusAccepted, status, text)
}

// kept returns the deliveries that are kept, once there are n.
func (r *receiver) kept(n int) (list []Delivery) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		var err error
		list, err = r.Deliveries.List(r.t.Context(), r.by.Workspace, r.repo)
		require.NoError(r.t, err)
		return len(list) == n
	}, patience, 5*time.Millisecond)
	return list
}

// R38: a delivery is a hint to look at the repository, whatever it says. A repetition is none.
func TestR38DeliveryMakesLook(t *testing.T) {
	r := newReceiver(t, 0)
	for n := range 3 {
		r.tell(fmt.Sprint("delivery-", n))
		require.Equal(t, r.repo, <-r.looked)
	}
	r.tell("delivery-1")
	r.tell("delivery-3")
	require.Equal(t, r.repo, <-r.looked)
	require.Len(t, r.kept(4), 4)
	require.Empty(t, r.looked, "the repetition was no hint")
	r.tell("a name that is no name") // it is known by what it says
	require.Equal(t, r.repo, <-r.looked)
	r.tell("another one")
	require.Equal(t, Delivery{At: r.kept(5)[0].At, Event: "push", Accepted: true}, r.kept(5)[0])
}

// Who does not know the secret of a hook learns nothing, not even whether it exists.
func TestWrongSignaturesAreAnsweredAlike(t *testing.T) {
	r := newReceiver(t, 0)
	former, right := r.hook, signature(secret, body)
	r.hook = r.setHook("another-secret-of-the-hook")
	for name, c := range map[string]struct{ hook, signature string }{
		"another secret":   {r.hook.String(), right},
		"none":             {r.hook.String(), ""},
		"without its kind": {r.hook.String(), strings.TrimPrefix(signature("another-secret-of-the-hook", body), "sha256=")},
		"another body":     {r.hook.String(), signature("another-secret-of-the-hook", body+" ")},
		"no hexadecimal":   {r.hook.String(), "sha256=zz"},
		"an empty one":     {r.hook.String(), "sha256="},
		"a former hook":    {former.String(), right},
		"an unknown hook":  {events.NewID(time.Now()).String(), right},
		"the repository":   {r.repo.String(), right},
		"no id":            {"hook", right},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := r.send(c.hook, body, c.signature, "one")
			require.Equal(t, http.StatusNotFound, status)
			require.JSONEq(t, `{"code":"not_found","message":"There is nothing here.","details":{}}`, text)
		})
	}
	require.False(t, r.kept(1)[0].Accepted, "all of them take one row")
	require.Empty(t, r.looked)

	_, _, err := r.commands.DisconnectRepo(t.Context(), commands.DisconnectRepo{Meta: r.by, Repo: r.repo, Name: "acme/web"})
	require.NoError(t, err)
	status, _ := r.send(r.hook.String(), body, signature("another-secret-of-the-hook", body), "two")
	require.Equal(t, http.StatusNotFound, status, "a repository that is disconnected has no hook")
}

func TestDeliveriesAreLimited(t *testing.T) {
	r := newReceiver(t, 3)
	status, text := r.send(r.hook.String(), strings.Repeat("x", maxBody+1), "", "")
	require.Equal(t, http.StatusRequestEntityTooLarge, status, text)
	for range 3 {
		r.tell("one") // does not count for the address
	}
	status, _ = r.send(r.hook.String(), body, signature(secret, body), "one")
	require.Equal(t, http.StatusTooManyRequests, status, "of a hook")
	for range 2 {
		status, _ = r.send(events.NewID(time.Now()).String(), body, "", "one")
		require.Equal(t, http.StatusNotFound, status)
	}
	status, _ = r.send(events.NewID(time.Now()).String(), body, "", "one")
	require.Equal(t, http.StatusTooManyRequests, status, "of an address")
}

// The last deliveries are kept, whatever comes.
func TestLastDeliveriesAreKept(t *testing.T) {
	r := newReceiver(t, 0)
	for n := range maxKept + 5 {
		r.tell(fmt.Sprint("delivery-", n))
		<-r.looked
	}
	for range 5 {
		status, _ := r.send(r.hook.String(), body, "sha256=00", "forged")
		require.Equal(t, http.StatusNotFound, status)
	}
	require.Eventually(t, func() bool { return !r.kept(maxKept)[0].Accepted }, patience, 5*time.Millisecond)
	for _, d := range r.kept(maxKept)[1:] {
		require.True(t, d.Accepted)
	}
}
