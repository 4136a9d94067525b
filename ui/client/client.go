// Package client speaks to the REST service for the web app: requests and types that
// are generated from the API's description, the routes of sign-in, which the
// description leaves out, and one place where answers are decoded.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"svc/http/middleware"
)

// The configuration is in codegen.yaml.
//
//go:generate sh -c "go run svc/cmd/svc-rest -openapi | go tool -modfile=../../tools/go.mod oapi-codegen -config codegen.yaml /dev/stdin"

const (
	maxAnswer    = 16 << 20 // bytes of an answer that is decoded
	connectLimit = 2 * time.Second
	headerLimit  = 20 * time.Second // until an answer begins; reads may wait five seconds for a position
	idleConns    = 256
)

// A Service is the REST service. It is for all requests of the process.
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

// Address returns the address of the service, such as "http://localhost:4000".
func (s *Session) Address() string { return s.service.base }

// Close ends the connections that are idle.
func (s *Service) Close() { s.http.CloseIdleConnections() }

// A Session asks the service in the name of whoever made one request of the app: with
// their cookies, address and request id, in one workspace. Its methods, those of
// [Client], return responses, which [Read] and [Do] decode.
//
// What was written through a session is in what is read through it afterwards.
type Session struct {
	*Client
	service   *Service
	workspace string
	header    http.Header
	seq       atomic.Int64

	mu      sync.Mutex
	cookies []*http.Cookie
}

// For returns the session of a request, in a workspace: its slug, or "" for none.
func (s *Service) For(r *http.Request, workspace string) *Session {
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

// SignedIn reports whether the request has a cookie of a session, valid or not.
func (s *Session) SignedIn() bool { return strings.Contains(s.header.Get("Cookie"), "session_token=") }

// Await makes later reads wait, for five seconds at most, until they show the event
// with that number.
func (s *Session) Await(seq int64) {
	for {
		old := s.seq.Load()
		if seq <= old || s.seq.CompareAndSwap(old, seq) {
			return
		}
	}
}

// Position returns the number of the newest event that reads have to show, 0 for none.
func (s *Session) Position() int64 { return s.seq.Load() }

// Do sends a request of the generated client.
func (s *Session) Do(r *http.Request) (*http.Response, error) {
	if strings.ContainsFunc(s.workspace, unicode.IsControl) { // which no header can say, nor any workspace be called
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
		s.Await(seq)
	}
	if set := resp.Cookies(); len(set) > 0 {
		s.mu.Lock()
		s.cookies = append(s.cookies, set...)
		s.mu.Unlock()
	}
	return resp, nil
}

// Cookies returns what the service has set so far, such as that of a renewed session.
func (s *Session) Cookies() []*http.Cookie {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cookies
}

// buffers hold answers while they are decoded: decoding copies what it keeps.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keptBuffer = 256 << 10 // bytes; larger ones are left to the collector

// Read decodes an answer. The error is a [*Refused] if the service refused, and
// [*Unreachable] if it did not answer. Call it on a method of [Session]:
//
//	members, err := client.Read[client.MemberList](session.ListMembers(ctx, nil))
func Read[T any](resp *http.Response, err error) (answer T, _ error) {
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return answer, refusal(resp)
	}
	text := buffers.Get().(*bytes.Buffer)
	text.Reset()
	defer func() {
		if text.Cap() <= keptBuffer {
			buffers.Put(text)
		}
	}()
	if _, err := text.ReadFrom(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return answer, fmt.Errorf("read %s: %w", resp.Request.URL.Path, err)
	}
	if err := json.Unmarshal(text.Bytes(), &answer); err != nil {
		return answer, fmt.Errorf("decode %s: %w", resp.Request.URL.Path, err)
	}
	return answer, nil
}

// Done is [Read] for answers in which nothing is looked at.
func Done(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return refusal(resp)
	}
	return nil
}

// A Refused is an answer of the service that is not what was asked for.
type Refused struct {
	Status     int
	Code       string                     `json:"code"`
	Message    string                     `json:"message"`
	Details    map[string]json.RawMessage `json:"details"`
	RetryAfter string                     // seconds, or ""
}

func (r *Refused) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Message) }

// Field returns what is wrong with a field that was sent, "" if nothing is.
func (r *Refused) Field(name string) string {
	var texts []string
	if json.Unmarshal(r.Details[name], &texts) != nil {
		return ""
	}
	return strings.Join(texts, ", ")
}

const maxRefusal = 1 << 20

func refusal(resp *http.Response) error {
	r := &Refused{Status: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After")}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return &Unreachable{Err: err}
	}
	if json.Unmarshal(text, r) != nil || r.Message == "" { // of a proxy, perhaps
		r.Message = http.StatusText(resp.StatusCode)
	}
	return r
}

// As returns the refusal that an error is, nil if it is none.
func As(err error) *Refused {
	r, _ := errors.AsType[*Refused](err)
	return r
}

// Unreachable says that the service did not answer.
type Unreachable struct{ Err error }

func (u *Unreachable) Error() string { return "ask the REST service: " + u.Err.Error() }

// Unwrap returns why.
func (u *Unreachable) Unwrap() error { return u.Err }

// Optional returns the address of a parameter that is set, and nil for one that is zero.
func Optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// request makes one that is not in the description.
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

// Detail reads what the refusal says beside its message, as far as it is of that form.
func (r *Refused) Detail(name string, into any) { _ = json.Unmarshal(r.Details[name], into) }
