// Package client is the web app's client of the REST service. Requests and types are
// generated from the OpenAPI description; the sign-in routes, which the description does
// not have, are written by hand. [Decode] decodes all responses.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"svc/http/middleware"
)

// The configuration is in codegen.yaml. The description is read first: a pipe would hide an error of the
// program that writes it.
//
//go:generate sh -c "text=$(go run ../../http/rest/gendescription.go) && printf %s \"$DOLLAR{text}\" | go run -modfile=../../tools/go.mod github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen -config codegen.yaml /dev/stdin"

const (
	maxAnswer    = 16 << 20 // bytes of a response body
	connectLimit = 2 * time.Second
	headerLimit  = 29 * time.Second // until response headers arrive; repositories are checked meanwhile
	idleConns    = 256
)

// A Service holds the connections to the REST service. All requests of the process share one.
type Service struct {
	base string
	http *http.Client
}

// NewService returns the service at base, such as "http://localhost:4000".
func NewService(base string) *Service {
	return &Service{base, &http.Client{
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: connectLimit}).DialContext,
			MaxIdleConnsPerHost:   idleConns,
			IdleConnTimeout:       time.Minute,
			ResponseHeaderTimeout: headerLimit,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (s *Service) Close() { s.http.CloseIdleConnections() }

// A Session sends requests to the service on behalf of one request of a browser: with its
// cookies, address and request id, in one workspace. The methods of [Client] return
// responses, which [Decode] and [CheckResponse] decode.
//
// Reads show what was written earlier through the same session.
type Session struct {
	*Client
	service   *Service
	workspace string
	header    http.Header
	seq       atomic.Int64

	mu      sync.Mutex
	cookies []*http.Cookie
}

// NewSession returns a session for a browser's request. workspace is a slug, or "" for none.
func (s *Service) NewSession(r *http.Request, workspace string) *Session {
	h := http.Header{
		"X-Forwarded-For": {middleware.Address(r)},
		"X-Request-Id":    {middleware.RequestID(r.Context())},
		"User-Agent":      {r.UserAgent()},
	}
	middleware.SetOriginUI(h)
	if workspace != "" {
		h.Set("X-Svc-Tenant", workspace)
	}
	for _, c := range r.Cookies() {
		if strings.HasPrefix(strings.TrimPrefix(c.Name, "__Secure-"), "better-auth.") {
			h.Add("Cookie", c.Name+"="+c.Value)
		}
	}
	if list := h["Cookie"]; len(list) > 1 {
		h.Set("Cookie", strings.Join(list, "; "))
	}
	session := &Session{service: s, workspace: workspace, header: h}
	session.Client = &Client{Server: s.base + "/", Client: session}
	return session
}

// HasSessionCookie reports whether the browser sent a session cookie, valid or not.
func (s *Session) HasSessionCookie() bool {
	return strings.Contains(s.header.Get("Cookie"), "session_token=")
}

// RequirePosition makes later reads wait, for up to five seconds, until they show the event with
// that sequence number.
func (s *Session) RequirePosition(seq int64) {
	for {
		old := s.seq.Load()
		if seq <= old || s.seq.CompareAndSwap(old, seq) {
			return
		}
	}
}

// Position returns the sequence number of the newest event that reads must show, 0 for none.
func (s *Session) Position() int64 { return s.seq.Load() }

// Do sends a request of the generated client. The error is a [*Refused] or [*Unreachable].
func (s *Session) Do(r *http.Request) (*http.Response, error) {
	if strings.ContainsFunc(s.workspace, unicode.IsControl) { // neither a header nor a slug can contain them
		return nil, &Refused{Status: http.StatusNotFound, Code: "tenant_not_found", Message: "There is no such workspace."}
	}
	if strings.ContainsFunc(r.Header.Get("Idempotency-Key"), unicode.IsControl) {
		return nil, &Refused{Status: http.StatusUnprocessableEntity, Code: "validation_failed", Message: "The request is not valid."}
	}
	for name, values := range s.header {
		if r.Header.Get(name) == "" {
			r.Header[name] = values
		}
	}
	if seq := s.seq.Load(); seq > 0 && r.Method == http.MethodGet {
		r.Header.Set("X-Svc-Min-Position", strconv.FormatInt(seq, 10))
	}
	resp, err := s.service.http.Do(r)
	if err != nil {
		return nil, &Unreachable{Err: err}
	}
	if seq, err := strconv.ParseInt(resp.Header.Get("X-Svc-Position"), 10, 64); err == nil {
		s.RequirePosition(seq)
	}
	if set := resp.Cookies(); len(set) > 0 {
		s.mu.Lock()
		s.cookies = append(s.cookies, set...)
		s.mu.Unlock()
	}
	return resp, nil
}

// Cookies returns the cookies that responses have set, such as that of an extended session.
func (s *Session) Cookies() []*http.Cookie {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cookies
}

// buffers hold response bodies while they are decoded. Decoded values do not refer to them.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const maxPooledBuffer = 256 << 10 // bytes; larger buffers are garbage collected

// Decode decodes a response. The error is a [*Refused] if the service refused the request, and
// an [*Unreachable] if it did not respond. Call it on a method of [Session]:
//
//	members, err := client.Decode[client.MemberList](session.ListMembers(ctx, nil))
func Decode[T any](resp *http.Response, err error) (answer T, _ error) {
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return answer, decodeRefusal(resp)
	}
	text := buffers.Get().(*bytes.Buffer)
	text.Reset()
	defer func() {
		if text.Cap() <= maxPooledBuffer {
			buffers.Put(text)
		}
	}()
	if _, err := text.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1)); err != nil {
		return answer, fmt.Errorf("read %s: %w", resp.Request.URL.Path, err)
	}
	if text.Len() > maxAnswer {
		return answer, &Refused{
			Status: http.StatusRequestEntityTooLarge, Code: "too_large",
			Message: "This is too large to show on a page. Use the export or the API instead.",
		}
	}
	if err := json.Unmarshal(text.Bytes(), &answer); err != nil {
		return answer, fmt.Errorf("decode %s: %w", resp.Request.URL.Path, err)
	}
	return answer, nil
}

// CheckResponse is [Decode] without decoding the response.
func CheckResponse(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return decodeRefusal(resp)
	}
	return nil
}

// A Refused is an error response of the service.
type Refused struct {
	Status     int
	Code       string                     `json:"code"`
	Message    string                     `json:"message"`
	Details    map[string]json.RawMessage `json:"details"`
	RetryAfter string                     // seconds, or ""
}

func (r *Refused) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Message) }

// FieldError returns what is wrong with a field of the request, "" if nothing is.
func (r *Refused) FieldError(name string) string {
	var texts []string
	if json.Unmarshal(r.Details[name], &texts) != nil {
		return ""
	}
	return strings.Join(texts, ", ")
}

// FieldErrors returns what is wrong with each of these fields of a form, or with a part of it such as labels[0].
// Fields that are right have no entry.
func (r *Refused) FieldErrors(names ...string) map[string]string {
	found := map[string]string{}
	for _, field := range slices.Sorted(maps.Keys(r.Details)) {
		i := slices.IndexFunc(names, func(name string) bool {
			rest, ok := strings.CutPrefix(field, name)
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
		if text := r.FieldError(field); i >= 0 && text != "" && found[names[i]] == "" {
			found[names[i]] = text
		}
	}
	return found
}

// RefusedField is a refusal of a field that the app itself has found. text is a sentence, or the end of one that begins
// with the field's name.
func RefusedField(name, text string) *Refused {
	list, _ := json.Marshal([]string{text}) // texts always encode
	return &Refused{
		Status: http.StatusConflict, Code: "validation_failed", Message: text, Details: map[string]json.RawMessage{name: list},
	}
}

const maxRefusal = 1 << 20 // bytes of an error response

func decodeRefusal(resp *http.Response) error {
	r := &Refused{Status: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After")}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return &Unreachable{Err: err}
	}
	if json.Unmarshal(text, r) != nil || r.Message == "" { // from a proxy, for example
		r.Message = http.StatusText(resp.StatusCode)
	}
	return r
}

// AsRefused returns the [*Refused] in err's chain, or nil.
func AsRefused(err error) *Refused {
	r, _ := errors.AsType[*Refused](err)
	return r
}

// Unreachable says that the service did not respond.
type Unreachable struct{ Err error }

func (u *Unreachable) Error() string { return "ask the REST service: " + u.Err.Error() }

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

// Optional returns a pointer to an optional parameter, or nil if it is the zero value.
func Optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// request sends a request that the OpenAPI description does not have.
func (s *Session) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s: %w", path, err)
		}
		sent = strings.NewReader(string(text))
	}
	r, err := http.NewRequestWithContext(ctx, method, s.service.base+path, sent)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", path, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return s.Do(r)
}

// Detail decodes an entry of Details into the value that into points to, and leaves the value as it
// is if the entry is missing or has another form.
func (r *Refused) Detail(name string, into any) { _ = json.Unmarshal(r.Details[name], into) }
