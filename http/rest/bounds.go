package rest

import (
	"context"
	"fmt"
	"runtime"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"svc/events"
	"svc/http/quota"
	"svc/projections"
)

// bounds are all that bounds what goes on at once in a process. Slots are
// counted by person and by workspace, see [Server.holder].
type bounds struct {
	reads         *quota.Semaphore // of what takes no other slot
	streams       *quota.Semaphore // of live updates
	exports       *quota.Semaphore // of the audit log
	downloads     *quota.Semaphore // of artifacts and logs
	verifications *quota.Semaphore // of Merkle logs
	histories     *quota.Semaphore // states and replays: each keeps a workspace in memory
	positions     *quota.Semaphore // requests that wait for X-Svc-Min-Position
}

// restMost is how long a slot rests at most whose holder insists.
const restMost = time.Second

func newBounds() bounds {
	return bounds{
		reads: quota.New(quota.Bound{
			Name: "reads", Slots: 64, PerParty: readsPart(),
			Queue: 4096, Wait: 5 * time.Second, Retry: time.Second, IdleAfter: time.Second, MaxCooldown: restMost,
		}),
		streams: quota.New(quota.Bound{
			Name: "streams", Slots: 1024, PerCaller: 12,
			Queue: 512, Wait: time.Second, Retry: 10 * time.Second,
		}),
		exports: quota.New(quota.Bound{Name: "exports", Slots: 8, Retry: 30 * time.Second}),
		downloads: quota.New(quota.Bound{
			Name: "downloads", Slots: 64, PerCaller: 8,
			Queue: 64, Wait: 5 * time.Second, Retry: 5 * time.Second,
		}),
		verifications: quota.New(quota.Bound{
			Name: "verifications", Slots: 4,
			Queue: 32, Wait: 20 * time.Second, Retry: 10 * time.Second, MaxCooldown: restMost,
		}),
		histories: quota.New(quota.Bound{
			Name: "histories", Slots: 4,
			Queue: 32, Wait: 10 * time.Second, Retry: 5 * time.Second, MaxCooldown: restMost,
		}),
		positions: quota.New(quota.Bound{
			Name: "positions", Slots: 512, PerCaller: 16,
			Queue: 512, Wait: time.Second, Retry: time.Second,
		}),
	}
}

// readsPart is how many reads of one person or workspace are under way while others
// ask too: more would only take processors from those.
func readsPart() int { return max(4, 2*runtime.GOMAXPROCS(0)) }

func (b bounds) all() []*quota.Semaphore {
	return []*quota.Semaphore{b.reads, b.streams, b.exports, b.downloads, b.verifications, b.histories, b.positions}
}

// take takes a slot for the caller of ctx, who keeps it until the answer has
// been written.
func (s *Server) take(ctx context.Context, of *quota.Semaphore) error {
	return s.takeFor(ctx, of, callerOf(ctx))
}

func (s *Server) takeFor(ctx context.Context, of *quota.Semaphore, c *caller) error {
	release, err := s.acquire(ctx, of, c)
	if err == nil {
		c.slots = append(c.slots, release)
	}
	return err
}

func (s *Server) acquire(ctx context.Context, of *quota.Semaphore, c *caller) (release func(), err error) {
	h, err := s.holder(ctx, c)
	if err != nil {
		return nil, err
	}
	return of.Acquire(ctx, h)
}

// holder returns for whom a slot of the caller's is counted: the workspace, and
// the person who asks or, of a service account, the one who issued its token. So
// whoever has many workspaces with many accounts has one share all the same,
// and nobody can use up the share of another, such as by inviting them.
func (s *Server) holder(ctx context.Context, c *caller) (quota.Holder, error) {
	h := quota.Holder{Caller: c.envelope.Actor.ID, Workspace: c.workspace}
	if c.person != nil {
		h.Person = c.person.user
		return h, nil
	}
	var err error
	h.Person, err = s.issuers.of(ctx, s.views.ServiceAccounts, c.token)
	return h, err
}

// issuers remembers who issued tokens, which never changes.
type issuers struct {
	known *lru.Cache[events.Fingerprint, events.ID]
}

// issuersKept is of how many tokens a process remembers it.
const issuersKept = 10_000

func newIssuers() issuers {
	known, err := lru.New[events.Fingerprint, events.ID](issuersKept)
	if err != nil {
		panic(err) // only for a size below one
	}
	return issuers{known}
}

func (i issuers) of(ctx context.Context, accounts projections.ServiceAccounts, t *projections.ServiceToken) (events.ID, error) {
	if person, ok := i.known.Get(t.Fingerprint); ok {
		return person, nil
	}
	person, err := accounts.Issuer(ctx, t.Workspace, t.Account)
	if err != nil {
		return events.ID{}, fmt.Errorf("issuer of a token of service account %s: %w", t.Account, err)
	}
	i.known.Add(t.Fingerprint, person)
	return person, nil
}
