package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/http/limit"
	"svc/http/openapi"
	"svc/http/reply"
	"svc/projections/fold"
)

// A guard is the authorization rule of a route. The zero guard admits nobody.
type guard struct {
	scope   events.Scope // required of a service token; "" refuses every token
	members bool         // whether every member is admitted
	right   events.Right // required of a person otherwise
	own     bool         // whether the path names a member, and members without the right are admitted to their own
	deleted bool         // whether the workspace has to be a deleted one
}

// Guards that require no right of people. mayDo returns one that does.
var (
	anyMember            = guard{members: true}
	anyMemberOrReadToken = guard{scope: events.ReadAPI, members: true}
)

func mayDo(right events.Right) guard { return guard{right: right} }

// String describes who is admitted.
func (g guard) String() string {
	text := g.roles()
	if g.own {
		text += ", or the member themselves"
	}
	if g.scope != "" {
		text += ", or a token with " + string(g.scope)
	}
	return text
}

func (g guard) roles() string {
	if g.members {
		return "any member"
	}
	var names []string
	for _, role := range g.right.Roles() {
		name := string(role)
		if role == events.Legacy {
			name = "legacy member"
		}
		names = append(names, name)
	}
	last := len(names) - 1
	switch last {
	case -1:
		return "nobody"
	case 0:
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

type callerKey struct{}

// callerOf returns the caller of a request. It panics if the route has no guard.
func callerOf(ctx context.Context) *caller { return ctx.Value(callerKey{}).(*caller) }

// guardRoute returns the guard of a route. Every route checks in the same order: that the request is
// well-formed, who the caller is and their rate limit, whether this kind of caller is admitted, the
// workspace, and the scope or role. The request's parameters and body are validated after that.
func (s *Server) guardRoute(row route) openapi.Guard {
	return func(w http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
		limited := r
		if row.limits.Time > beginLimit {
			ctx, cancel := context.WithTimeout(r.Context(), beginLimit)
			defer cancel()
			limited = r.WithContext(ctx)
		}
		c, err := s.admitCaller(w, limited, row)
		if err != nil {
			return nil, nil, err
		}
		r.Body = limited.Body // which may be buffered
		ctx := context.WithValue(r.Context(), callerKey{}, c)
		if c.position > 0 {
			ctx = fold.Require(ctx, row.views, c.workspace, c.position)
		}
		return ctx, c.releaseSlots, nil
	}
}

func (s *Server) admitCaller(w http.ResponseWriter, r *http.Request, row route) (*caller, error) {
	if err := checkWellFormed(r, row.limits.OrDefault().Body); err != nil {
		return nil, err
	}
	c, err := s.identify(w, r, row)
	if c != nil {
		c.target = r.PathValue("id")
	}
	switch {
	case err != nil:
		return nil, err
	case row.farm && !s.Farm.On:
		return nil, aggregates.ErrFarmOff
	case c.token != nil && row.guard.scope == "":
		return nil, s.deny(w, r, row, c, errPrincipalRefused)
	}
	c.deleted = row.guard.deleted
	if err := s.enterWorkspace(r.Context(), c, r.Header.Get("X-Svc-Tenant")); err != nil {
		return nil, err
	}
	if err := c.may(row.guard); err != nil {
		return nil, s.deny(w, r, row, c, err)
	}
	if err := s.awaitTurn(w, r, row, c); err != nil {
		c.releaseSlots()
		return nil, err
	}
	return c, nil
}

// awaitTurn waits for whatever the request needs before its handler runs. The caller's rights may end
// during that time.
func (s *Server) awaitTurn(w http.ResponseWriter, r *http.Request, row route, c *caller) error {
	err := s.awaitPosition(r, row.views, c)
	switch {
	case err != nil:
	case row.method != http.MethodGet:
		err = s.bufferBody(w, r, row, c)
	case !row.ownSlot:
		err = s.acquireSlotFor(r.Context(), s.bounds.reads, c)
	}
	if err != nil {
		return err
	}
	return s.recheckIfStale(r.Context(), c)
}

// deny records that the caller was refused, and returns the refusal, even if recording it fails. The
// body is read only with a slot; without one, deny returns why there was none.
func (s *Server) deny(w http.ResponseWriter, r *http.Request, row route, c *caller, refusal error) error {
	if row.intent == nil {
		return refusal
	}
	var body []byte
	if row.method != http.MethodGet {
		if err := s.bufferBody(w, r, row, c); err != nil {
			return err
		}
		defer c.releaseSlots()
		body, _ = io.ReadAll(r.Body) // what arrived, if reading fails
	}
	if !reply.FewValues(body) {
		body = nil
	}
	id, _ := events.ParseID(c.target) // zero if it is not an id
	if err := s.Commands.RecordDenial(r.Context(), c.meta(), row.intent(c, id, body), refusal); err != nil {
		s.Log.WarnContext(r.Context(), "record a denial", "err", err)
	}
	return refusal
}

func checkWellFormed(r *http.Request, maxBody int64) error {
	if err := reply.CheckRequest(r, maxBody); err != nil {
		return err
	}
	if err := checkHeaders(r.Header); err != nil {
		return err
	}
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if r.ContentLength != 0 && media != "" && !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return openapi.ErrUnsupportedMedia
	}
	coding := strings.Join(r.Header.Values("Content-Encoding"), ",")
	if r.ContentLength != 0 && coding != "" && !strings.EqualFold(coding, "identity") {
		return openapi.ErrUnsupportedMedia
	}
	return nil
}

// awaitPosition waits until the views have reached X-Svc-Min-Position, so that a caller reads its own
// writes. Only requests that have to wait acquire a slot.
func (s *Server) awaitPosition(r *http.Request, views []string, c *caller) error {
	text := r.Header.Get("X-Svc-Min-Position")
	if text == "" || r.Method != http.MethodGet {
		return nil
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 0 {
		return fault.Field("X-Svc-Min-Position", "must be a position: 0 or more")
	}
	awaiter := s.Lists.Awaiter
	c.waitUntil = time.Now().Add(fold.AwaitTimeout)
	if views == nil {
		awaiter, views = s.Primary.Awaiter, []string{""}
	} else {
		c.position = seq
	}
	var behind []string
	for _, view := range views {
		switch reached, err := awaiter.Reached(r.Context(), view, c.workspace, seq); {
		case err != nil:
			return err
		case !reached:
			behind = append(behind, view)
		}
	}
	if behind == nil {
		return nil
	}
	slot, err := s.acquire(r.Context(), s.bounds.positions, c)
	if err != nil {
		return err
	}
	defer slot.Release()
	for _, view := range behind {
		if err := awaiter.Await(r.Context(), view, c.workspace, seq); err != nil {
			return err
		}
	}
	c.foundAt = time.Time{} // what was waited for may be the end of the caller's rights
	return nil
}

// readReached calls read, and again while the server that answers has not reached the position that the
// request requires: the one that was asked by awaitPosition may be another. Meanwhile the request holds a
// slot of the positions instead of its read slot.
func readReached[O any](ctx context.Context, s *Server, read func() (*O, error)) (*O, error) {
	out, err := read()
	c := callerOf(ctx)
	if c.position == 0 || !errors.Is(err, fold.ErrNotCaughtUp) {
		return out, err
	}
	c.releaseSlots()
	slot, err := s.acquire(ctx, s.bounds.positions, c)
	if err != nil {
		return nil, err
	}
	defer slot.Release()
	limited, cancel := context.WithDeadline(ctx, c.waitUntil)
	defer cancel()
	out, err = fold.RetryBehind(limited, func() (*O, error) {
		if err := s.acquireSlotFor(ctx, s.bounds.reads, c); err != nil {
			return nil, err
		}
		out, err := read()
		if errors.Is(err, fold.ErrNotCaughtUp) {
			c.releaseSlots()
		}
		return out, err
	})
	if err != nil {
		return nil, err
	}
	return out, s.recheck(ctx, c) // what was waited for may be the end of the caller's rights
}

// identify authenticates the caller and applies the rate limit. A request counts against its caller or,
// if the credential is not valid, against its address: guessing credentials does not evade the limit.
// Valid callers are not limited by others behind the same address, which may be a proxy's.
func (s *Server) identify(w http.ResponseWriter, r *http.Request, row route) (*caller, error) {
	c, err := s.authenticate(w, r, row)
	if f := fault.As(err); f != nil && f.Kind == fault.Unauthenticated {
		if limited := s.Limit.Allow(r.Context(), w.Header(), limit.Address(r)); limited != nil {
			return nil, limited
		}
	}
	if err != nil {
		return nil, err
	}
	return c, s.Limit.Allow(r.Context(), w.Header(), limit.Caller(c.envelope.Actor.ID))
}

// Headers that may be sent once, and those of them that must not be empty. An empty X-Svc-Tenant or
// Last-Event-ID is treated as absent.
var (
	onceHeaders   = []string{"X-Svc-Tenant", "X-Svc-Min-Position", "Idempotency-Key", "Last-Event-ID"}
	filledHeaders = []string{"X-Svc-Min-Position", "Idempotency-Key"}
)

// checkHeaders refuses headers that are repeated or empty and must not be.
func checkHeaders(h http.Header) error {
	for _, name := range onceHeaders {
		switch values := h.Values(name); {
		case len(values) > 1:
			return fault.Field(name, reply.RepeatedValue)
		case len(values) == 1 && values[0] == "" && slices.Contains(filledHeaders, name):
			return fault.Field(name, reply.EmptyValue)
		}
	}
	return nil
}
