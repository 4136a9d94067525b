// Package hooks serves the addresses at which code hosts tell of changes. What they tell is a hint to look at a repository
// at once, and nothing is taken from it: without hooks the same is noticed later.
package hooks

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"svc/credentials"
	"svc/events"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/http/router"
)

// Prefix begins the paths of hooks. The id of a hook follows it.
const Prefix = "/hooks/"

const (
	maxBody  = 1 << 20
	maxQueue = 256 // deliveries that wait to be acted upon; while it is full, hosts are told to come back
	workers  = 8   // one slow code host holds one of them
	addTime  = 10 * time.Second
)

var (
	errBusy = fault.New(fault.Busy, "hooks_busy", "Too many deliveries wait.")
	errBody = fault.Field("body", "could not be read")
)

// Keys looks up the holder of a global key.
type Keys interface {
	Holder(ctx context.Context, key string) (workspace, owner events.ID, err error)
}

// Config configures a [Server]. Limit is optional.
type Config struct {
	Keys        Keys
	Credentials credentials.Store
	Deliveries  Deliveries
	Limit       *limit.Limit                                         // deliveries to each hook, and wrong ones of each address
	Look        func(ctx context.Context, workspace, repo events.ID) // looks at a repository at its code host
	Log         *slog.Logger
}

// A Server answers code hosts.
type Server struct {
	Config
	queue   chan delivery
	unknown []byte // the secret of hooks that do not exist
}

// New returns a server whose deliveries wait until Run is called.
func New(c Config) *Server {
	return &Server{Config: c, queue: make(chan delivery, maxQueue), unknown: []byte(rand.Text())}
}

// Handler returns the handler of all hooks.
func (s *Server) Handler() http.Handler {
	routes := router.New(router.Refuse(s.Log, router.ErrNotFound), router.Refuse(s.Log, router.ErrMethod))
	routes.Handle(router.Route{
		Method: http.MethodPost, Path: Prefix + "{id}", Limits: middleware.Limits{Body: maxBody}, Handler: http.HandlerFunc(s.take),
	})
	return routes
}

// Run acts upon deliveries until ctx ends.
func (s *Server) Run(ctx context.Context) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case d := <-s.queue:
					s.act(ctx, d)
				}
			}
		})
	}
	group.Wait()
}

// act looks at the repository, unless the delivery is a repetition or was refused.
func (s *Server) act(ctx context.Context, d delivery) {
	within, cancel := context.WithTimeout(ctx, addTime)
	added, err := s.Deliveries.add(within, d)
	cancel()
	if err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "record a delivery of a code host", "err", err)
	}
	if d.accepted && (added || err != nil) {
		s.Look(ctx, d.workspace, d.repo)
	}
}

func (s *Server) take(w http.ResponseWriter, r *http.Request) {
	if err := s.accept(w.Header(), r); err != nil {
		reply.Error(w, r, s.Log, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// accept checks the signature of a delivery before anything else of it counts. An address that no hook has and a wrong
// signature are answered alike.
func (s *Server) accept(header http.Header, r *http.Request) error {
	if err := reply.CheckRequest(r, maxBody); err != nil {
		return err
	}
	id, _ := events.ParseID(r.PathValue("id")) // zero, which no hook has, for other texts
	address := limit.Address(r)
	for _, caller := range []string{address, "hook " + id.String()} {
		if err := s.Limit.Allow(header, caller); err != nil {
			return err
		}
	}
	d, secret, err := s.find(r.Context(), id)
	if err != nil {
		return err
	}
	known := secret != nil
	if !known {
		secret = s.unknown
	}
	code := hmac.New(sha256.New, secret)
	if _, err := io.Copy(code, r.Body); err != nil {
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return reply.TooLarge(large.Limit)
		}
		return errBody
	}
	sum := code.Sum(nil)
	sent, signed := strings.CutPrefix(r.Header.Get("X-Hub-Signature-256"), "sha256=") // Gitea sends it too
	signature, _ := hex.DecodeString(sent)                                            // of another length if it fails
	right := hmac.Equal(signature, sum) && signed && known
	d.describe(r.Header, sum, right)
	if known && !s.offer(d) && right {
		return errBusy
	}
	if !right {
		return router.ErrNotFound
	}
	s.Limit.Return(address)
	return nil
}

// offer queues a delivery if there is room.
func (s *Server) offer(d delivery) bool {
	select {
	case s.queue <- d:
		return true
	default:
		return false
	}
}

// find returns a delivery to the hook's repository and the hook's secret, nil if no connected repository has that hook.
func (s *Server) find(ctx context.Context, id events.ID) (d delivery, secret []byte, err error) {
	if d.workspace, d.repo, err = s.Keys.Holder(ctx, events.HookKey(id)); err != nil {
		return d, nil, err
	}
	repo, text, err := s.Credentials.RevealHook(ctx, d.workspace, d.repo)
	switch {
	case errors.Is(err, credentials.ErrUnreadable):
		return d, nil, nil
	case err != nil:
		return d, nil, err
	case repo.Hook() != id || text == "":
		return d, nil, nil
	}
	return d, []byte(text), nil
}

// A delivery is what a code host has told.
type delivery struct {
	workspace, repo events.ID
	id, event       string
	accepted        bool
}

// refused is the id of the last delivery of a repository with a wrong signature, so that they take one row together.
const refused = "refused"

// named is the form of the names that hosts give deliveries and events.
var named = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// describe says which delivery it is. One that its host does not name is the same as all with that content.
func (d *delivery) describe(h http.Header, sum []byte, accepted bool) {
	of := func(what, otherwise string) string {
		text := cmp.Or(h.Get("X-GitHub-"+what), h.Get("X-Gitea-"+what))
		if !named.MatchString(text) || text == refused {
			return otherwise
		}
		return text
	}
	d.accepted, d.event, d.id = accepted, of("Event", "unknown"), refused
	if accepted {
		d.id = of("Delivery", hex.EncodeToString(sum))
	}
}
