package door

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"

	"svc/aggregates/farm"
	"svc/events"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
	"svc/projections/fold"
)

// Mount adds the routes of sections to the API.
func (d *Door) Mount(api *openapi.API, sections []Section) {
	for _, section := range sections {
		for _, r := range section.Routes {
			api.Add(d.operation(section.Tag, r), r.Handler(d))
		}
	}
}

func (d *Door) operation(tag string, r Route) openapi.Operation {
	o := openapi.Operation{
		Method: r.Method, Path: Prefix + r.Path, Limits: r.Limits, Guard: d.guardRoute(r),
		ID: r.ID, Tag: tag, Summary: r.Summary, Description: r.Text + "\n\nFor: " + r.Guard.String() + ".", Status: r.Status,
		Faults: r.Faults(), Security: r.security(), Parameters: r.parameters(),
		RequestExample: r.RequestExample, AnswerExample: r.AnswerExample, Responses: r.Responses, Answer: r.Answer,
	}
	if r.More != "" {
		o.Description += "\n\n" + r.More
	}
	return o
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
		return nil, farm.ErrFarmOff
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

// bufferBody reads the body of a request that is not a GET, once there are slots for it, and then
// acquires a slot of the writes. A body may take long to arrive, so its slots do not count against
// the workspace.
func (d *Door) bufferBody(w http.ResponseWriter, r *http.Request, row Route, c *Caller) error {
	h, err := d.holder(r.Context(), c)
	if err != nil {
		return err
	}
	h.Workspace = events.ID{}
	slot, err := d.Bounds.bodies.AcquireN(r.Context(), h, BodySlots(r, row.Limits))
	if err != nil {
		return err
	}
	c.slots = append(c.slots, slot)
	middleware.BufferBody(w, r)
	if err := d.HoldSlot(r.Context(), d.Bounds.writes, c); err != nil {
		c.ReleaseSlots()
		return err
	}
	return nil
}

// BodySlots returns how many slots of the bodies a request needs.
func BodySlots(r *http.Request, l middleware.Limits) int {
	length := r.ContentLength
	if length < 0 { // unknown
		length = l.OrDefault().Body
	}
	return max(1, int((length+SlotBytes-1)/SlotBytes))
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

// identify authenticates the caller and applies the rate limit. A request counts against its caller or,
// if the credential is not valid, against its address: guessing credentials does not evade the limit.
// Valid callers are not limited by others behind the same address, which may be a proxy's.
func (d *Door) identify(w http.ResponseWriter, r *http.Request, row Route) (*Caller, error) {
	c, err := d.authenticate(w, r, row)
	if err != nil {
		if f := fault.As(err); f != nil && f.Kind == fault.Unauthenticated {
			if limited := d.Limit.Allow(w.Header(), limit.Address(r)); limited != nil {
				return nil, limited
			}
		}
		return nil, err
	}
	return c, d.Limit.Allow(w.Header(), c.Envelope.Actor.ID.String())
}

// Headers that may be sent once, and those of them that must not be empty. An empty X-Svc-Tenant or
// Last-Event-ID is treated as absent.
var (
	onceHeaders   = []string{"X-Svc-Tenant", "X-Svc-Min-Position", "Idempotency-Key", "Last-Event-ID"}
	filledHeaders = []string{"X-Svc-Min-Position", "Idempotency-Key"}
)
