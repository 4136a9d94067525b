package codehost

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"svc/dev/codehost/api"
)

// giteaRoutes are the part of Gitea's interface that works on repositories. Its objects are those of GitHub's interface
// with other fields where they differ.
func (h *host) giteaRoutes(mux *http.ServeMux) {
	add := func(line string, n need, handle handler, change func(*visit, object)) {
		method, path, _ := strings.Cut(line, " ")
		mux.HandleFunc(method+" /api/v1/repos/{owner}/{repo}"+path, h.serve(n, asGitea(handle, change)))
	}
	same := func(*visit, object) {}
	add("GET ", needRead, getRepository, func(_ *visit, o object) {
		o["allow_merge_commits"], o["has_pull_requests"] = o["allow_merge_commit"], true
	})
	add("GET /branches/{branch...}", needRead, getGiteaBranch, same)
	add("GET /commits/{ref}/statuses", needRead, listStatuses, giteaStatus)
	add("POST /statuses/{sha}", needPush, createStatus, giteaStatus)
	add("GET /issues", needRead, listGiteaIssues, same)
	add("GET /issues/{number}", needRead, getIssue, same)
	add("GET /issues/{number}/{comment}", needRead, getGiteaComments, same)
	add("POST /issues/{number}/comments", needWrite, createComment, same)
	add("PATCH /issues/comments/{comment}", needWrite, patchComment, same)
	add("GET /pulls", needRead, listPulls, giteaPull)
	add("POST /pulls", needWrite, createGiteaPull, giteaPull)
	add("GET /pulls/{number}", needRead, getPull, giteaPull)
	add("PATCH /pulls/{number}", needWrite, patchGiteaPull, giteaPull)
	add("POST /pulls/{number}/merge", needPush, mergeGiteaPull, same)
}

// giteaPage is the largest page, whatever is asked for.
const giteaPage = 50

// asGitea makes a handler of GitHub's interface one of Gitea's: it translates the query, and changes each object of the
// answer.
func asGitea(next handler, change func(*visit, object)) handler {
	return func(v *visit) (int, any, error) {
		query := v.URL.Query()
		query.Set("per_page", strconv.Itoa(api.PositiveParam(v.Request, "limit", giteaPage, giteaPage)))
		if query.Get("sort") == "recentupdate" {
			query.Set("sort", "updated")
			query.Set("direction", "desc")
		}
		v.URL.RawQuery = query.Encode()
		status, body, err := next(v)
		switch out := body.(type) {
		case object:
			change(v, out)
		case []object:
			for _, one := range out {
				change(v, one)
			}
		}
		return status, body, err
	}
}

func getGiteaBranch(v *visit) (int, any, error) {
	_, err := v.repo.Bare.Ref(v.Context(), "refs/heads/"+v.PathValue("branch"))
	return http.StatusOK, object{"name": v.PathValue("branch"), "protected": false}, missing(err, api.ErrNotFound)
}

func giteaStatus(_ *visit, o object) { o["status"] = o["state"] }

// listGiteaIssues leaves out pull requests if only issues are asked for.
func listGiteaIssues(v *visit) (int, any, error) {
	status, body, err := listIssues(v)
	list, _ := body.([]object)
	return status, slices.DeleteFunc(list, func(o object) bool {
		_, pull := o["pull_request"]
		return pull && v.URL.Query().Get("type") == "issues"
	}), err
}

// getGiteaComments also answers with what happened to an issue, of which it knows the end.
func getGiteaComments(v *visit) (int, any, error) {
	if v.PathValue("comment") != "timeline" {
		return getComments(v)
	}
	i, err := v.findIssue()
	if err != nil || !i.Closed {
		return http.StatusOK, []object{}, err
	}
	return http.StatusOK, []object{{"type": "close", "user": v.user(i.ClosedBy)}}, nil
}

// giteaPull says that nothing can be merged, which is to be believed of no Gitea.
func giteaPull(v *visit, o object) {
	o["mergeable"], o["merged"] = false, o["merged_at"] != nil
	o["html_url"] = v.web("/pulls/%d", o["number"])
	for _, name := range []string{"head", "base"} {
		end, _ := o[name].(object)
		end["label"], end["repo_id"] = end["ref"], v.repo.ID
	}
}

func createGiteaPull(v *visit) (int, any, error) {
	status, body, err := createPull(v)
	if refused, ok := errors.AsType[*api.Error](err); ok && strings.Contains(fmt.Sprint(refused.Body()), "already exists") {
		err = &api.Error{Status: http.StatusConflict, Message: "pull request already exists for these targets"}
	}
	return status, body, err
}

// patchGiteaPull reads the state alone: clients send all fields, and leave empty what is not to change.
func patchGiteaPull(v *visit) (int, any, error) {
	var in struct{ State string }
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	v.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"state": %q}`, in.State)))
	_, body, err := patchPull(v)
	return http.StatusCreated, body, err
}

// mergeGiteaPull says the same of a conflict as of a pull request that is not checked yet.
func mergeGiteaPull(v *visit) (int, any, error) {
	i, err := v.findPull()
	if err != nil {
		return 0, nil, err
	}
	var in struct {
		Do, MergeTitleField, MergeMessageField string

		Head string `json:"head_commit_id"`
	}
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	switch {
	case i.Pull.MergedAt != nil:
		return 0, nil, notMergeable("The PR is already merged")
	case i.Closed:
		return 0, nil, api.ErrNotFound
	}
	_, err = v.h.merge(v.Context(), v.repo, i, merging{
		head: in.Head, method: cmp.Or(in.Do, "merge"), title: in.MergeTitleField, message: in.MergeMessageField, by: v.who.login,
	})
	switch {
	case errors.Is(err, errHeadMoved):
		err = &api.Error{Status: http.StatusConflict, Message: "head out of date"}
	case errors.Is(err, errBaseMoved):
		err = &api.Error{Status: http.StatusConflict, Message: "merge push out of date"}
	case errors.Is(err, errNotMergeable):
		err = notMergeable("Please try again later")
	}
	return http.StatusOK, nil, err
}
