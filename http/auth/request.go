package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"svc/commands"
	"svc/config"
	"svc/events"
	"svc/fault"
	"svc/http/fair"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/input"
	"svc/sessions"
)

// Keys looks up the holder of a global key.
type Keys interface {
	Holder(ctx context.Context, key string) (workspace, owner events.ID, err error)
}

// Tokens stores the tokens of providers, encrypted.
type Tokens interface {
	Put(ctx context.Context, user events.ID, provider string, token config.Secret) error
}

// A request is an HTTP request with its ResponseWriter and, if the route requires one, its session.
type request struct {
	*http.Request
	w       http.ResponseWriter
	session sessions.Session
	slots   []*fair.Slot
}

// A handler returns a value to answer as JSON, an error, or errAnswered if it has written the answer.
type handler func(*Server, *request) (any, error)

// errAnswered is returned by a handler that has written the answer itself.
var errAnswered = errors.New("answered")

func public(handle func(*request) (any, error)) handler {
	return func(_ *Server, r *request) (any, error) { return handle(r) }
}

func signedIn(handle func(*request) (any, error)) handler {
	return signedInOr(errUnauthorized, handle)
}

// signedInOr fails with refusal if the request has no session.
func signedInOr(refusal error, handle func(*request) (any, error)) handler {
	return func(s *Server, r *request) (any, error) {
		session, ok, err := s.identify(r)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, refusal
		}
		r.session = session
		if err := checkQuery(r.URL.Query()); err != nil {
			return nil, err
		}
		return handle(r)
	}
}

// acquireSlots acquires slots until the answer is written. For methods other than GET, it also reads the body,
// with a slot that does not count against the workspace, since the body may take long to arrive.
func (s *Server) acquireSlots(r *request, h fair.Holder) error {
	if r.Method == http.MethodGet {
		return r.acquireSlot(s.Reads, h)
	}
	if err := r.acquireSlot(s.Bodies, fair.Holder{Caller: h.Caller, Person: h.Person}); err != nil {
		return err
	}
	middleware.BufferBody(r.w, r.Request)
	return r.acquireSlot(s.Writes, h)
}

// acquireSlot acquires a slot of a semaphore, which may be nil.
func (r *request) acquireSlot(semaphore *fair.Semaphore, h fair.Holder) error {
	if semaphore == nil {
		return nil
	}
	slot, err := semaphore.Acquire(r.Context(), h)
	if err == nil {
		r.slots = append(r.slots, slot)
	}
	return err
}

// releaseSlots releases all slots of a request.
func (r *request) releaseSlots() {
	for _, slot := range r.slots {
		slot.Release()
	}
}

// holderOf returns whose share the slots of a session count against: the person's and the active workspace's,
// as under /api/v1.
func holderOf(session sessions.Session) fair.Holder {
	h := fair.Holder{Caller: session.User, Person: session.User}
	if session.Active != nil {
		h.Workspace = *session.Active
	}
	return h
}

// limitAddress applies the rate limit of sign-ins, separately for each prefix, to the address of a request that
// is not authenticated. Unless the method is GET, it also reads the body, and then acquires a slot of the sign-ins.
//
// The body needs no slot while it arrives: bodies that never do, from many addresses, would take them all. It is
// no larger than what a connection takes in memory anyway.
func (s *Server) limitAddress(r *request, prefix string) error {
	if err := s.SignInLimit.Allow(r.w.Header(), prefix+limit.Address(r.Request)); err != nil {
		return err
	}
	if r.Method == http.MethodGet { // it may have to wait for a provider
		return nil
	}
	middleware.BufferBody(r.w, r.Request)
	return r.acquireSlot(s.SignIns, anonymousHolder(r.Request))
}

// anonymousHolder returns whose share the slots of a request that is not authenticated count against: its address's, and
// those of the IPv6 networks of a customer (/56) and of an organization (/48) instead of a person's and a
// workspace's.
func anonymousHolder(r *http.Request) fair.Holder {
	id := func(network string) (id events.ID) {
		digest := sha256.Sum256([]byte(network))
		copy(id[:], digest[:])
		return id
	}
	return fair.Holder{Caller: id(limit.Address(r)), Person: id(limit.Network(r, 56)), Workspace: id(limit.Network(r, 48))}
}

// checkQuery refuses empty and repeated parameters, as /api/v1 does: an empty organization would select the
// active one.
func checkQuery(query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if wrong := reply.SingleValueProblem(query[name]); wrong != "" {
			return errQuery(input.MaskTokens(name), wrong) // the name is the caller's text
		}
	}
	return nil
}

// identify returns the session, if there is one, and applies the rate limit of /api/v1. A request counts against
// its person or, if its cookie is not valid, against its address. With a session, it also acquires a slot, and
// checks the session again if that, or the body, took a while.
func (s *Server) identify(r *request) (session sessions.Session, ok bool, err error) {
	foundAt := s.Now()
	session, ok, err = s.sessionOf(r)
	if err != nil {
		return session, ok, err
	}
	if ok {
		if err := s.Limit.Allow(r.w.Header(), session.User.String()); err != nil {
			return session, true, err
		}
		if err := s.acquireSlots(r, holderOf(session)); err != nil {
			return session, true, err
		}
		if s.Now().Sub(foundAt) >= sessions.FreshFor {
			session, ok, err = s.Sessions.FindAgain(r.Context(), session)
		}
		return session, ok, err
	}
	if _, none := r.Cookie(s.Sessions.CookieName()); none != nil { // no cookie, no look-up to limit
		return session, false, nil
	}
	return session, false, s.Limit.Allow(r.w.Header(), limit.Address(r.Request))
}

// sessionOf returns the session of the cookie, and sets the cookie again if the session was extended. A request
// with an Authorization header never has a session.
func (s *Server) sessionOf(r *request) (session sessions.Session, ok bool, err error) {
	if _, other := r.Header["Authorization"]; other {
		return session, false, nil
	}
	session, renewed, ok, err := s.Sessions.FindIn(r.Request)
	if renewed {
		s.Sessions.RenewCookie(r.w, r.Request, session)
	}
	return session, ok, err
}

// serve returns the HTTP handler that answers with the result of handle.
func (s *Server) serve(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := &request{Request: r, w: w}
		defer req.releaseSlots()
		body, err := s.dispatch(handle, req)
		switch {
		case errors.Is(err, errAnswered):
		case err != nil:
			if f := fault.As(err); f != nil && f.Wait > 0 {
				w.Header().Set("X-Retry-After", reply.Seconds(f.Wait)) // where Better Auth's clients look
			}
			reply.Error(w, r, s.Log, err)
		default:
			reply.JSON(w, http.StatusOK, body)
		}
	})
}

func (s *Server) dispatch(handle handler, r *request) (any, error) {
	if err := reply.CheckRequest(r.Request, limits.Body); err != nil {
		return nil, err
	}
	if err := s.sameSite.Check(r.Request); err != nil {
		return nil, err
	}
	return handle(s, r)
}

// meta returns the metadata of a command by the session's person in a workspace.
func (r *request) meta(workspace events.ID) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{
		Actor:  events.Actor{Type: events.ByUser, ID: r.session.User, Name: r.session.Email},
		Origin: events.FromAuth, IP: middleware.Address(r.Request), UserAgent: middleware.UserAgent(r.Request),
		RequestID: middleware.RequestID(r.Context()),
	}}
}

// recordPosition sets X-Svc-Position from a command's result, and returns the command's error.
func (r *request) recordPosition(done commands.Result, err error) error {
	if err == nil {
		r.w.Header().Set("X-Svc-Position", strconv.FormatInt(done.Position, 10))
	}
	return err
}

// readBody decodes a JSON body.
func readBody[T any](r *request) (in T, err error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return in, reply.TooLarge(large.Limit)
		}
		return in, errBadJSON
	}
	if len(text) == 0 { // whatever its Content-Type
		return in, errValidation("", "Invalid input: expected object, received undefined")
	}
	if media := r.mediaType(); media != "application/json" {
		return in, errMediaType(media)
	}
	if !reply.FewValues(text) {
		return in, errValidation("", "Too many values, or too many in one array or object")
	}
	err = json.Unmarshal(text, &in)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return in, errValidation(wrong.Field, "Invalid input: expected "+jsonType(wrong.Type)+", received "+wrong.Value)
	}
	if err != nil {
		return in, errBadJSON
	}
	if string(bytes.TrimSpace(text)) == "null" {
		return in, errValidation("", "Invalid input: expected object, received null")
	}
	if name, wanted := nullField(reflect.TypeFor[T](), text); name != "" {
		return in, errValidation(name, "Invalid input: expected "+wanted+", received null")
	}
	if !reply.Storable(text) {
		return in, errValidation("", "must be Unicode text without NUL")
	}
	return in, nil
}

// nullField returns the name and JSON type of a field that is null although its Go type is not a pointer. The
// decoder would treat it as absent.
func nullField(t reflect.Type, text []byte) (name, wanted string) {
	var fields map[string]json.RawMessage
	if t.Kind() != reflect.Struct || json.Unmarshal(text, &fields) != nil {
		return "", ""
	}
	for i := range t.NumField() {
		f := t.Field(i)
		_, own := reflect.New(f.Type).Interface().(json.Unmarshaler)
		name := f.Tag.Get("json")
		if string(fields[name]) == "null" && f.Type.Kind() != reflect.Pointer && !own {
			return name, jsonType(f.Type)
		}
	}
	return "", ""
}

func (r *request) mediaType() string {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// jsonType returns the JSON name of a Go type.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return "number"
}

// requireField fails if a required text is missing.
func requireField(field, value string) error {
	if value == "" {
		return errValidation(field, "Invalid input: expected string, received undefined")
	}
	return nil
}

// translate replaces a command's refusal by the one in table under its code. Other errors are unchanged.
func translate(err error, table map[string]*fault.Fault) error {
	f := fault.As(err)
	if f == nil {
		return err
	}
	if t, ok := table[f.Code]; ok {
		return t
	}
	return err
}
