package codehost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/dev/codehost/bare"
	"svc/dev/codehost/faults"
	"svc/dev/codehost/record"
)

// This is the part of GitHub's interface that works on repositories, with its fields, statuses and words.

// apiPrefix is the path of the interface, as in GitHub Enterprise.
const apiPrefix = "/api/v3"

// An object is a JSON object of an answer.
type object map[string]any

// An apiError is an error that is answered.
type apiError struct {
	status  int
	message string
	errors  []object
}

func (e *apiError) Error() string { return e.message }

var (
	errNotFound    = &apiError{status: http.StatusNotFound, message: "Not Found"}
	errNoTokenHere = &apiError{status: http.StatusUnauthorized, message: "Requires authentication"}
	errForbidden   = &apiError{status: http.StatusForbidden, message: "Resource not accessible by personal access token"}
	errBody        = &apiError{status: http.StatusBadRequest, message: "Problems parsing JSON"}
)

// invalid is the refusal of a field.
func invalid(resource, field, code, message string) *apiError {
	return invalidWith(object{"resource": resource, "field": field, "code": code}, message)
}

func invalidWith(e object, message string) *apiError {
	if message != "" {
		e["message"] = message
	}
	return &apiError{status: http.StatusUnprocessableEntity, message: "Validation Failed", errors: []object{e}}
}

// A visit is a request of the interface. repo is locked while it lasts, if there is one.
type visit struct {
	*http.Request
	h    *host
	who  access
	repo *record.Repository
	head http.Header // of the answer
}

// A need is what a request must be allowed to do.
type need int

const (
	needNothing need = iota
	needToken
	needRead  // of the repository in the path
	needWrite // of its issues
	needPush
)

// A handler returns the status and the body of an answer. A nil body is none.
type handler func(*visit) (int, any, error)

// serve makes a handler of the interface.
func (h *host) serve(n need, handle handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Request: r, h: h, head: w.Header()}
		status, body, err := v.handle(n, handle)
		if refused, ok := errors.AsType[*apiError](err); ok {
			status, body = refused.status, refused.body()
		} else if err != nil {
			h.log.ErrorContext(r.Context(), "request failed", "err", err)
			status, body = http.StatusInternalServerError, object{"message": "Server Error"}
		}
		answer(w, r, status, body)
	}
}

func (e *apiError) body() object {
	out := object{"message": e.message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(e.status)}
	if e.errors != nil {
		out["errors"] = e.errors
	}
	return out
}

// handle checks the token, finds and locks the repository, and handles the request.
func (v *visit) handle(n need, next handler) (int, any, error) {
	a, ok := v.h.credentials(v.Request)
	v.who = a
	v.h.counts.Request(a.login)
	v.h.hours.count(v.head, a.login, v.h.now())
	switch {
	case !ok:
		return 0, nil, &apiError{status: http.StatusUnauthorized, message: "Bad credentials"}
	case n >= needToken && n != needRead && !a.known:
		return 0, nil, errNoTokenHere
	case n < needRead:
		return next(v)
	}
	if v.find(); v.repo == nil {
		return 0, nil, errNotFound
	}
	v.repo.Lock()
	defer v.repo.Unlock()
	if err := v.admit(n); err != nil {
		return 0, nil, err
	}
	if v.Method != http.MethodGet { // what it begins it ends even if the caller has gone
		ctx, cancel := lasting(v.Context())
		defer cancel()
		v.Request = v.WithContext(ctx)
	}
	return next(v)
}

// admit checks the rights of a request.
func (v *visit) admit(n need) error {
	a := v.who
	switch {
	case !a.mayRead(v.repo):
		return errNotFound
	case n == needPush && !a.mayPush(v.repo), n == needWrite && !a.mayWrite(v.repo):
		return errForbidden
	}
	return nil
}

// name is the repository that the path names, or "" if it has its id.
func (v *visit) name() string {
	if v.PathValue("owner") == "" {
		return ""
	}
	return strings.ToLower(v.PathValue("owner") + "/" + v.PathValue("repo"))
}

// find finds the repository in the path, if there is one.
func (v *visit) find() {
	if name := v.name(); name != "" {
		v.repo, _ = v.h.repositories.Find(name)
		return
	}
	if id, err := strconv.ParseInt(v.PathValue("id"), 10, 64); err == nil {
		v.repo = v.h.repositories.ByID(id)
	}
}

// lasting returns a context for work that is not cut off by its caller.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
}

// answer writes an answer. One to GET has an ETag, and is 304 if the caller has it.
func answer(w http.ResponseWriter, r *http.Request, status int, body any) {
	head := w.Header()
	head.Set("X-GitHub-Request-Id", head.Get("X-Request-Id"))
	head.Set("X-GitHub-Api-Version-Selected", "2022-11-28")
	head.Set("X-GitHub-Media-Type", "github.v3; format=json")
	if body == nil {
		w.WriteHeader(status)
		return
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the type is a bug
	}
	head.Set("Content-Type", "application/json; charset=utf-8")
	if r.Method == http.MethodGet && status == http.StatusOK {
		sum := sha256.Sum256(append(text, r.Header.Get("Authorization")...))
		tag := `W/"` + hex.EncodeToString(sum[:]) + `"`
		head.Set("ETag", tag)
		head.Set("Cache-Control", "private, max-age=60, s-maxage=60")
		head.Set("Vary", "Accept, Authorization, Cookie, X-GitHub-OTP")
		if slices.Contains(strings.Split(r.Header.Get("If-None-Match"), ", "), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(text) // fails if the client has gone
}

// read decodes a body. Like GitHub it ignores unknown fields.
func (v *visit) read(into any) error {
	if err := json.NewDecoder(v.Body).Decode(into); err != nil {
		return errBody
	}
	return nil
}

// api returns an address of the interface.
func (v *visit) api(format string, args ...any) string {
	return base(v.Request) + apiPrefix + fmt.Sprintf(format, args...)
}

// web returns the address of a page.
func (v *visit) web(format string, args ...any) string {
	return base(v.Request) + "/" + v.repo.Name + fmt.Sprintf(format, args...)
}

// in returns an address of the interface below the repository.
func (v *visit) in(format string, args ...any) string {
	return v.api("/repos/%s", v.repo.Name) + fmt.Sprintf(format, args...)
}

// number returns the number in the path.
func (v *visit) number() (int, error) {
	n, err := strconv.Atoi(v.PathValue("number"))
	if err != nil {
		return 0, errNotFound
	}
	return n, nil
}

// since parses the parameter since, which is empty or a time.
func (v *visit) since() (time.Time, error) {
	text := v.URL.Query().Get("since")
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, &apiError{status: http.StatusUnprocessableEntity, message: "The since parameter must be a time."}
	}
	return at, nil
}

// paged returns the page of a list that the query asks for, and sets Link.
func paged[T any](v *visit, list []T) []T {
	size, number := positiveParam(v.Request, "per_page", 30, 100), positiveParam(v.Request, "page", 1, 10_000)
	last := max(1, (len(list)+size-1)/size)
	link := func(page int, rel string) string {
		query := v.URL.Query()
		query.Set("page", strconv.Itoa(page))
		return "<" + base(v.Request) + v.URL.Path + "?" + query.Encode() + `>; rel="` + rel + `"`
	}
	var links []string
	if number > 1 {
		links = append(links, link(number-1, "prev"))
	}
	if number < last {
		links = append(links, link(number+1, "next"), link(last, "last"))
	}
	if number > 1 {
		links = append(links, link(1, "first"))
	}
	if links != nil {
		v.head.Set("Link", strings.Join(links, ", "))
	}
	begin := min((number-1)*size, len(list))
	return list[begin:min(begin+size, len(list))]
}

// hours count requests by account and hour. The limit is told, and not enforced: tests inject it as a fault.
type hours struct {
	mu     sync.Mutex
	hour   time.Time
	counts map[string]int
}

// count counts a request and sets the headers of the limit.
func (l *hours) count(head http.Header, login string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if hour := now.Truncate(time.Hour); !hour.Equal(l.hour) {
		l.hour, l.counts = hour, map[string]int{}
	}
	l.counts[login]++
	used := min(l.counts[login], faults.Hourly-1)
	head.Set("X-RateLimit-Limit", strconv.Itoa(faults.Hourly))
	head.Set("X-RateLimit-Remaining", strconv.Itoa(faults.Hourly-used))
	head.Set("X-RateLimit-Used", strconv.Itoa(used))
	head.Set("X-RateLimit-Reset", strconv.FormatInt(l.hour.Add(time.Hour).Unix(), 10))
	head.Set("X-RateLimit-Resource", "core")
}

// stamp formats a time as GitHub does.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// stampOrNull formats a time that may be missing.
func stampOrNull(at *time.Time) any {
	if at == nil {
		return nil
	}
	return stamp(*at)
}

// textOrNull is null for "".
func textOrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// missing turns bare's ErrNotFound into an answer.
func missing(err error, p *apiError) error {
	if errors.Is(err, bare.ErrNotFound) {
		return p
	}
	return err
}

// escaped escapes a name for a path, but for its slashes.
func escaped(name string) string { return strings.ReplaceAll(url.PathEscape(name), "%2F", "/") }

// githubRoutes are the routes on repositories. They exist by name and by id.
func (h *host) githubRoutes(mux *http.ServeMux) {
	add := func(line string, n need, handle handler) {
		method, path, _ := strings.Cut(line, " ")
		for _, prefix := range []string{"/repos/{owner}/{repo}", "/repositories/{id}"} {
			mux.HandleFunc(method+" "+apiPrefix+prefix+path, h.serve(n, handle))
		}
	}
	add("GET ", needRead, getRepository)
	add("GET /rules/branches/{branch...}", needRead, getRules)
	add("GET /commits/{ref}/statuses", needRead, listStatuses)
	add("POST /statuses/{sha}", needPush, createStatus)
	add("GET /issues", needRead, listIssues)
	add("POST /issues", needWrite, createIssue)
	add("GET /issues/{number}", needRead, getIssue)
	add("PATCH /issues/{number}", needWrite, patchIssue)
	add("GET /issues/{number}/{comment}", needRead, getComments)
	add("POST /issues/{number}/comments", needWrite, createComment)
	add("PATCH /issues/comments/{comment}", needWrite, patchComment)
	add("GET /pulls", needRead, listPulls)
	add("POST /pulls", needWrite, createPull)
	add("GET /pulls/{number}", needRead, getPull)
	add("PATCH /pulls/{number}", needWrite, patchPull)
	add("PUT /pulls/{number}/merge", needPush, mergePull)
	mux.HandleFunc("POST "+apiPrefix+"/orgs/{org}/repos", h.serve(needToken, createRepository))
}
