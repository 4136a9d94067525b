package door

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

// A Guard is the authorization rule of a route. The zero guard admits nobody.
type Guard struct {
	Scope   events.Scope // required of a service token; "" refuses every token
	Members bool         // whether every member is admitted
	Right   events.Right // required of a person otherwise
	Own     bool         // whether the path names a member, and members without the right are admitted to their own
	Deleted bool         // whether the workspace has to be a deleted one
}

// Guards that require no right of people. MayDo returns one that does.
var (
	AnyMember            = Guard{Members: true}
	AnyMemberOrReadToken = Guard{Scope: events.ReadAPI, Members: true}
)

// MayDo returns the guard that requires a right of people, and admits no token.
func MayDo(right events.Right) Guard { return Guard{Right: right} }

// String describes who is admitted.
func (g Guard) String() string {
	text := g.Roles()
	if g.Own {
		text += ", or the member themselves"
	}
	if g.Scope != "" {
		text += ", or a token with " + string(g.Scope)
	}
	return text
}

// Roles names the roles that are admitted, for people.
func (g Guard) Roles() string {
	if g.Members {
		return "any member"
	}
	var names []string
	for _, role := range g.Right.Roles() {
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

// CallerOf returns the caller of a request. It panics if the route has no guard.
func CallerOf(ctx context.Context) *Caller { return ctx.Value(callerKey{}).(*Caller) }

// WithCaller returns the context of a request of c.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// guardRoute returns the guard of a route. Every route checks in the same order: that the request is
// well-formed, who the caller is and their rate limit, whether this kind of caller is admitted, the
// workspace, and the scope or role. The request's parameters and body are validated after that.
func (d *Door) guardRoute(row Route) openapi.Guard {
	row.Limits = row.Limits.OrDefault()
	return func(w http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
		limited := r
		if row.Limits.Time > BeginLimit {
			ctx, cancel := context.WithTimeout(r.Context(), BeginLimit)
			defer cancel()
			limited = r.WithContext(ctx)
		}
		c, err := d.admitCaller(w, limited, row)
		if err != nil {
			return nil, nil, err
		}
		r.Body = limited.Body // which may be buffered
		ctx := WithCaller(r.Context(), c)
		if c.Position > 0 {
			ctx = fold.Require(ctx, row.Views, c.Workspace, c.Position)
		}
		return ctx, c.ReleaseSlots, nil
	}
}

func (d *Door) admitCaller(w http.ResponseWriter, r *http.Request, row Route) (*Caller, error) {
	if err := checkWellFormed(r, row.Limits.Body); err != nil {
		return nil, err
	}
	c, err := d.identify(w, r, row)
	if c != nil {
		c.target = r.PathValue("id")
	}
	switch {
	case err != nil:
		return nil, err
	case row.Farm && !d.FarmOn:
		return nil, aggregates.ErrFarmOff
	case c.Token != nil && row.Guard.Scope == "":
		return nil, d.deny(w, r, row, c, errPrincipalRefused)
	}
	c.deleted = row.Guard.Deleted
	if err := d.enterWorkspace(r.Context(), c, r.Header.Get("X-Svc-Tenant")); err != nil {
		return nil, err
	}
	if err := c.May(row.Guard); err != nil {
		return nil, d.deny(w, r, row, c, err)
	}
	if err := d.awaitTurn(w, r, row, c); err != nil {
		c.ReleaseSlots()
		return nil, err
	}
	return c, nil
}

// awaitTurn waits for whatever the request needs before its handler runs. The caller's rights may end
// during that time.
func (d *Door) awaitTurn(w http.ResponseWriter, r *http.Request, row Route, c *Caller) error {
	var err error
	if position := r.Header.Get("X-Svc-Min-Position"); position != "" && row.Method == http.MethodGet {
		err = d.awaitPosition(r, position, row.Views, c)
	}
	switch {
	case err != nil:
	case row.Method != http.MethodGet:
		err = d.bufferBody(w, r, row, c)
	case !row.OwnSlot:
		err = d.HoldSlot(r.Context(), d.Bounds.reads, c)
	}
	if err != nil {
		return err
	}
	return d.RecheckIfStale(r.Context(), c)
}

// deny records that the caller was refused, and returns the refusal, even if recording it fails. The
// body is read only with a slot; without one, deny returns why there was none.
func (d *Door) deny(w http.ResponseWriter, r *http.Request, row Route, c *Caller, refusal error) error {
	if row.Intent == nil {
		return refusal
	}
	var body []byte
	if row.Method != http.MethodGet {
		if err := d.bufferBody(w, r, row, c); err != nil {
			return err
		}
		defer c.ReleaseSlots()
		body, _ = io.ReadAll(r.Body) // what arrived, if reading fails
	}
	if !reply.FewValues(body) {
		body = nil
	}
	id, _ := events.ParseID(c.target) // zero if it is not an id
	if err := d.Commands.RecordDenial(r.Context(), c.Meta(), row.Intent(c, id, body), refusal); err != nil {
		d.Log.WarnContext(r.Context(), "record a denial", "err", err)
	}
	return refusal
}

func checkWellFormed(r *http.Request, maxBody int64) error {
	if err := reply.CheckRequest(r, maxBody); err != nil {
		return err
	}
	for _, name := range onceHeaders {
		switch values := r.Header.Values(name); {
		case len(values) > 1:
			return fault.Field(name, reply.RepeatedValue)
		case len(values) == 1 && values[0] == "" && slices.Contains(filledHeaders, name):
			return fault.Field(name, reply.EmptyValue)
		}
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

// awaitPosition waits until the views have reached X-Svc-Min-Position, which is text, so that a caller reads its own
// writes. Only requests that have to wait acquire a slot.
func (d *Door) awaitPosition(r *http.Request, text string, views []string, c *Caller) error {
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 0 {
		return fault.Field("X-Svc-Min-Position", "must be a position: 0 or more")
	}
	awaiter := d.Replica
	c.waitUntil = time.Now().Add(fold.AwaitTimeout)
	if views == nil {
		awaiter, views = d.Primary, []string{""}
	} else {
		c.Position = seq
	}
	var behind []string
	for _, view := range views {
		switch reached, err := awaiter.Reached(r.Context(), view, c.Workspace, seq); {
		case err != nil:
			return err
		case !reached:
			behind = append(behind, view)
		}
	}
	if behind == nil {
		return nil
	}
	slot, err := d.Acquire(r.Context(), d.Bounds.positions, c)
	if err != nil {
		return err
	}
	defer slot.Release()
	for _, view := range behind {
		if err := awaiter.Await(r.Context(), view, c.Workspace, seq); err != nil {
			return err
		}
	}
	c.FoundAt = time.Time{} // what was waited for may be the end of the caller's rights
	return nil
}

// readReached calls read, and again while the server that answers has not reached the position that the
// request requires: the one that was asked by awaitPosition may be another. Meanwhile the request holds a
// slot of the positions instead of its read slot.
func readReached[O any](ctx context.Context, d *Door, read func() (*O, error)) (*O, error) {
	out, err := read()
	c := CallerOf(ctx)
	if c.Position == 0 || !errors.Is(err, fold.ErrNotCaughtUp) {
		return out, err
	}
	c.ReleaseSlots()
	slot, err := d.Acquire(ctx, d.Bounds.positions, c)
	if err != nil {
		return nil, err
	}
	defer slot.Release()
	limited, cancel := context.WithDeadline(ctx, c.waitUntil)
	defer cancel()
	out, err = fold.RetryBehind(limited, func() (*O, error) {
		if err := d.HoldSlot(ctx, d.Bounds.reads, c); err != nil {
			return nil, err
		}
		out, err := read()
		if errors.Is(err, fold.ErrNotCaughtUp) {
			c.ReleaseSlots()
		}
		return out, err
	})
	if err != nil {
		return nil, err
	}
	return out, d.Recheck(ctx, c) // what was waited for may be the end of the caller's rights
}

// identify authenticates the caller and applies the rate limit. A request counts against its caller or,
// if the credential is not valid, against its address: guessing credentials does not evade the limit.
// Valid callers are not limited by others behind the same address, which may be a proxy's.
func (d *Door) identify(w http.ResponseWriter, r *http.Request, row Route) (*Caller, error) {
	c, err := d.authenticate(w, r, row)
	if err != nil {
		if f := fault.As(err); f != nil && f.Kind == fault.Unauthenticated {
			if limited := d.Limit.Allow(r.Context(), w.Header(), limit.Address(r)); limited != nil {
				return nil, limited
			}
		}
		return nil, err
	}
	return c, d.Limit.Allow(r.Context(), w.Header(), c.Envelope.Actor.ID.String())
}

// Headers that may be sent once, and those of them that must not be empty. An empty X-Svc-Tenant or
// Last-Event-ID is treated as absent.
var (
	onceHeaders   = []string{"X-Svc-Tenant", "X-Svc-Min-Position", "Idempotency-Key", "Last-Event-ID"}
	filledHeaders = []string{"X-Svc-Min-Position", "Idempotency-Key"}
)
