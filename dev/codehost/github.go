package codehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc/dev/codehost/api"
	"svc/dev/codehost/bare"
	"svc/dev/codehost/hooks"
	"svc/dev/codehost/record"
)

// This is the part of GitHub's interface that works on repositories, with its fields, statuses and words.

// apiPrefix is the path of the interface, as in GitHub Enterprise.
const apiPrefix = "/api/v3"

// An object is a JSON object of an answer.
type object = api.Object

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
		if refused, ok := errors.AsType[*api.Error](err); ok {
			status, body = refused.Status, refused.Body()
		} else if err != nil {
			h.log.ErrorContext(r.Context(), "request failed", "err", err)
			status, body = http.StatusInternalServerError, object{"message": "Server Error"}
		}
		api.Write(w, r, status, body)
	}
}

// handle checks the token, finds and locks the repository, and handles the request.
func (v *visit) handle(n need, next handler) (int, any, error) {
	a, ok := v.h.credentials(v.Request)
	v.who = a
	v.h.counts.Request(a.login)
	v.h.hours.Count(v.head, a.login, v.h.now())
	switch {
	case !ok:
		return 0, nil, &api.Error{Status: http.StatusUnauthorized, Message: "Bad credentials"}
	case n >= needToken && n != needRead && !a.known:
		return 0, nil, api.ErrNoTokenHere
	case n < needRead:
		return next(v)
	}
	if v.find(); v.repo == nil {
		return 0, nil, api.ErrNotFound
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
		return api.ErrNotFound
	case n == needPush && !a.mayPush(v.repo), n == needWrite && !a.mayWrite(v.repo):
		return api.ErrForbidden
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

// read decodes a body. Like GitHub it ignores unknown fields.
func (v *visit) read(into any) error {
	if err := json.NewDecoder(v.Body).Decode(into); err != nil {
		return api.ErrBody
	}
	return nil
}

// api returns an address of the interface.
func (v *visit) api(format string, args ...any) string {
	return api.Base(v.Request) + apiPrefix + fmt.Sprintf(format, args...)
}

// web returns the address of a page.
func (v *visit) web(format string, args ...any) string {
	return api.Base(v.Request) + "/" + v.repo.Name + fmt.Sprintf(format, args...)
}

// in returns an address of the interface below the repository.
func (v *visit) in(format string, args ...any) string {
	return v.api("/repos/%s", v.repo.Name) + fmt.Sprintf(format, args...)
}

// number returns the number in the path.
func (v *visit) number() (int, error) {
	n, err := strconv.Atoi(v.PathValue("number"))
	if err != nil {
		return 0, api.ErrNotFound
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
		return at, &api.Error{Status: http.StatusUnprocessableEntity, Message: "The since parameter must be a time."}
	}
	return at, nil
}

// missing turns bare's ErrNotFound into an answer.
func missing(err error, p *api.Error) error {
	if errors.Is(err, bare.ErrNotFound) {
		return p
	}
	return err
}

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
	add("GET /hooks", needPush, hooked(hooks.List))
	add("POST /hooks", needPush, hooked(hooks.Create))
	add("PATCH /hooks/{hook}", needPush, hooked(hooks.Change))
	add("DELETE /hooks/{hook}", needPush, hooked(hooks.Remove))
	add("GET /collaborators/{login}/permission", needPush, getPermission)
	add("PUT /collaborators/{login}", needPush, addCollaborator)
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
