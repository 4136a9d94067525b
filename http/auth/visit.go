package auth

import (
	"bytes"
	"context"
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
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/input"
	"svc/sessions"
)

// Keys says who holds a global key.
type Keys interface {
	Holder(ctx context.Context, key string) (workspace, owner events.ID, err error)
}

// Tokens keeps what providers gave us, sealed.
type Tokens interface {
	Put(ctx context.Context, user events.ID, provider string, token config.Secret) error
}

// A visit is a request and, where the route needs one, the session it is made in.
type visit struct {
	*http.Request
	w       http.ResponseWriter
	session sessions.Session
}

// A handler answers a visit with JSON, with an error or, by returning errAnswered,
// by itself.
type handler func(*Server, *visit) (any, error)

// errAnswered says that a handler has written the answer itself.
var errAnswered = errors.New("answered")

func anybody(handle func(*visit) (any, error)) handler {
	return func(_ *Server, v *visit) (any, error) { return handle(v) }
}

func signedIn(handle func(*visit) (any, error)) handler {
	return signedInOr(errUnauthorized, handle)
}

// signedInOr refuses visits without a session in the route's own words.
func signedInOr(refusal error, handle func(*visit) (any, error)) handler {
	return func(s *Server, v *visit) (any, error) {
		session, ok, err := s.identify(v)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, refusal
		}
		v.session = session
		if err := checkQuery(v.URL.Query()); err != nil {
			return nil, err
		}
		return handle(v)
	}
}

// checkQuery refuses parameters that are empty or repeated, as /api/v1 does: an empty
// organization would be the active one. A filter may have several values, and an empty
// one is what texts are compared with.
func checkQuery(query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if wrong := reply.SingleValueProblem(query[name]); wrong != "" && name != "filterValue" {
			return errQuery(input.Redact(name), wrong) // the caller may have named it
		}
	}
	return nil
}

// identify is sessionOf, unless the caller has to wait. A person is counted as
// under /api/v1, and so is the address of whoever sends a cookie that is none.
func (s *Server) identify(v *visit) (session sessions.Session, ok bool, err error) {
	session, ok, err = s.sessionOf(v)
	if err != nil {
		return session, ok, err
	}
	if ok {
		return session, true, s.limit.Allow(v.Context(), v.w.Header(), limit.Caller(session.User))
	}
	if _, none := v.Cookie(s.sessions.CookieName()); none != nil { // then nothing was looked up
		return session, false, nil
	}
	return session, false, s.limit.Allow(v.Context(), v.w.Header(), limit.Address(v.Request))
}

// sessionOf returns the session of the cookie. Extending it sets the cookie
// anew. A request with an Authorization header is judged by that alone, and no
// session comes by it.
func (s *Server) sessionOf(v *visit) (session sessions.Session, ok bool, err error) {
	if _, other := v.Header["Authorization"]; other {
		return session, false, nil
	}
	cookie, err := v.Cookie(s.sessions.CookieName())
	if err != nil {
		return session, false, nil // no cookie is no session
	}
	session, renewed, ok, err := s.sessions.Find(v.Context(), cookie.Value)
	if renewed {
		s.renewCookie(v, session)
	}
	return session, ok, err
}

// renewCookie hands the browser the session that it has, to be remembered as
// before.
func (s *Server) renewCookie(v *visit, session sessions.Session) {
	_, forget := v.Cookie(s.sessions.ForgetCookieName())
	s.setCookie(v, session, forget != nil)
}

// setCookie hands the browser its session. remember says that it outlives the
// browser.
func (s *Server) setCookie(v *visit, session sessions.Session, remember bool) {
	cookie := s.sessions.Cookie(session)
	if !remember {
		cookie.MaxAge = 0
		http.SetCookie(v.w, s.sessions.ForgetCookie())
	}
	http.SetCookie(v.w, cookie)
}

// serve answers what a handler returns. Writes from another site are refused.
func (s *Server) serve(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := s.visited(handle, &visit{Request: r, w: w})
		switch {
		case errors.Is(err, errAnswered):
		case err != nil:
			if f := fault.As(err); f != nil && f.Wait > 0 {
				w.Header().Set("X-Retry-After", reply.Seconds(f.Wait)) // where Better Auth's clients look
			}
			reply.Error(w, r, s.log, err)
		default:
			reply.JSON(w, http.StatusOK, body)
		}
	})
}

func (s *Server) visited(handle handler, v *visit) (any, error) {
	if err := reply.CheckRequest(v.Request, middleware.Limits{}.OrDefault().Body); err != nil {
		return nil, err
	}
	if s.sameSite.Check(v.Request) != nil {
		return nil, errCrossOrigin
	}
	return handle(s, v)
}

// meta begins a command of the person's in a workspace.
func (v *visit) meta(workspace events.ID) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{
		Actor:  events.Actor{Type: events.ByUser, ID: v.session.User, Name: v.session.Email},
		Origin: events.FromAuth, IP: middleware.Address(v.Request), UserAgent: middleware.UserAgent(v.Request),
		RequestID: middleware.RequestID(v.Context()),
	}}
}

// did takes what a command came to, and tells the caller how far it took the
// workspace's log.
func (v *visit) did(done commands.Result, err error) error {
	if err == nil {
		v.w.Header().Set("X-Svc-Position", strconv.FormatInt(done.Position, 10))
	}
	return err
}

// read decodes the body of a visit, which is JSON.
func read[T any](v *visit) (in T, err error) {
	text, err := io.ReadAll(v.Body)
	if err != nil {
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return in, reply.TooLarge(large.Limit)
		}
		return in, errBadJSON
	}
	if len(text) == 0 { // whatever it says that it is
		return in, errValidation("", "Invalid input: expected object, received undefined")
	}
	if media := v.mediaType(); media != "application/json" {
		return in, errMediaType(media)
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

// nullField finds a field of t that is null and must not be: null is a value only for
// what is a pointer. The decoder takes it for absent, as it does an unknown field.
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

func (v *visit) mediaType() string {
	media, _, _ := strings.Cut(v.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// jsonType is what JSON calls a type of ours.
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

// need refuses a body in which a text is missing.
func need(field, value string) error {
	if value == "" {
		return errValidation(field, "Invalid input: expected string, received undefined")
	}
	return nil
}

// translated answers a refusal of the commands in this surface's words. What
// words does not name stays as it is.
func translated(err error, words map[string]*fault.Fault) error {
	f := fault.As(err)
	if f == nil {
		return err
	}
	if t, ok := words[f.Code]; ok {
		return t
	}
	return err
}
