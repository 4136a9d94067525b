package rest

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"svc/events"
	"svc/fault"
	"svc/http/limit"
	"svc/http/openapi"
	"svc/http/reply"
)

// A guard says who may call a route.
type guard struct {
	scope events.Scope // a service token needs it; "" refuses every token
	right events.Right // a person needs it; 0 lets every member
}

// The guards that ask for no right, and those that ask for one.
var (
	readers = guard{scope: events.ReadAPI}
	people  = guard{}
)

func mayDo(right events.Right) guard { return guard{right: right} }

// String names those who are let in.
func (g guard) String() string {
	people := g.people()
	if g.scope != "" {
		return people + ", or a token with " + string(g.scope)
	}
	return people
}

// people names the roles that are let in.
func (g guard) people() string {
	if g.right == 0 {
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
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

type callerKey struct{}

// callerOf returns who made the request. Only guarded routes may ask.
func callerOf(ctx context.Context) *caller { return ctx.Value(callerKey{}).(*caller) }

// admit is what stands before a route. The order of its questions is the same
// everywhere: is the request readable, who asks and do they ask too often, may
// this kind of caller ask at all, in which workspace, with which scope or role.
// Only then is anything of the request validated.
func (s *Server) admit(row route) openapi.Guard {
	return func(w http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
		asked := r
		if row.limits.Time > beginLimit {
			ctx, cancel := context.WithTimeout(r.Context(), beginLimit)
			defer cancel()
			asked = r.WithContext(ctx)
		}
		c, err := s.admitted(w, asked, row)
		if err != nil {
			return nil, nil, err
		}
		return context.WithValue(r.Context(), callerKey{}, c), c.giveBack, nil
	}
}

func (s *Server) admitted(w http.ResponseWriter, r *http.Request, row route) (*caller, error) {
	if err := checkForm(r, row.limits.OrDefault().Body); err != nil {
		return nil, err
	}
	c, err := s.identify(w, r, row)
	if c != nil {
		c.target = r.PathValue("id")
	}
	switch {
	case err != nil:
		return nil, err
	case row.farm && !s.farm.On:
		return nil, errFarmOff
	case c.token != nil && row.guard.scope == "":
		s.recordDenial(r, row, c, errPrincipalRefused)
		return nil, errPrincipalRefused
	}
	if err := s.enter(r.Context(), c, r.Header.Get("X-Svc-Tenant")); err != nil {
		return nil, err
	}
	if err := c.may(row.guard); err != nil {
		s.recordDenial(r, row, c, err)
		return nil, err
	}
	if err := s.await(r, row.views, c); err != nil {
		return nil, err
	}
	if row.method == http.MethodGet && !row.ownSlot {
		return c, s.takeFor(r.Context(), s.bounds.reads, c)
	}
	return c, nil
}

// deniedBody is how much of a body is looked at for what was asked for.
const deniedBody = 64 << 10

// recordDenial writes down that the caller asked for what they may not have. The
// refusal stands whether or not that succeeds.
func (s *Server) recordDenial(r *http.Request, row route, c *caller, refusal error) {
	if row.intent == nil {
		return
	}
	id, _ := events.ParseID(c.target)                         // what is no id is nothing's
	body, _ := io.ReadAll(io.LimitReader(r.Body, deniedBody)) // of one that breaks off what came
	if err := s.commands.Deny(r.Context(), c.meta(), row.intent(c, id, body), refusal); err != nil {
		s.log.WarnContext(r.Context(), "record a denial", "err", err)
	}
}

func checkForm(r *http.Request, maxBody int64) error {
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

// await lets a reader's own writes come into view before they are answered. Only
// those who have to wait for that take a slot.
func (s *Server) await(r *http.Request, views []string, c *caller) error {
	text := r.Header.Get("X-Svc-Min-Position")
	if text == "" || r.Method != http.MethodGet {
		return nil
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq < 0 {
		return fault.Field("X-Svc-Min-Position", "must be a position: 0 or more")
	}
	awaiter := s.lists.Views
	if views == nil {
		awaiter, views = s.views.Follower, []string{""}
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
	release, err := s.acquire(r.Context(), s.bounds.positions, c)
	if err != nil {
		return err
	}
	defer release()
	for _, view := range behind {
		if err := awaiter.Await(r.Context(), view, c.workspace, seq); err != nil {
			return err
		}
	}
	return nil
}

// identify says who calls, unless they have to wait. Callers are counted by who
// they are, and by their address if they cannot show that: whoever tries out
// credentials gets no fresh limit by making up others. Those who can are never
// held up by others of the same address, which may be a proxy's.
func (s *Server) identify(w http.ResponseWriter, r *http.Request, row route) (*caller, error) {
	c, err := s.authenticate(w, r, row)
	if f := fault.As(err); f != nil && f.Kind == fault.Unauthenticated {
		if limited := s.limit.Allow(r.Context(), w.Header(), limit.Address(r)); limited != nil {
			return nil, limited
		}
	}
	if err != nil {
		return nil, err
	}
	return c, s.limit.Allow(r.Context(), w.Header(), limit.Caller(c.envelope.Actor.ID))
}
