package githost

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// GitHub is a small part of GitHub's interface over one repository, in memory.
type GitHub struct {
	GitHubRepository

	t    testing.TB
	host *Host
	repo *Repository

	mu       sync.Mutex
	issues   []*Entry
	comments []*Comment
	statuses []map[string]any
	counts   map[string]int
}

// A GitHubRepository is what a test may change.
type GitHubRepository struct {
	ID       int64
	Settings map[string]any // replace fields of the repository
	Rules    []map[string]any
}

// Change changes the repository.
func (g *GitHub) Change(do func(*GitHubRepository)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	do(&g.GitHubRepository)
}

// An Entry is an issue or, with a Head, a pull request.
type Entry struct {
	Number           int
	Title, Body      string
	Labels           []string
	Closed           bool
	Head, Base       string // branches
	Merged           bool
	MergedHead       string
	MergeCommit, Who string
}

// A Comment is a comment on an issue.
type Comment struct {
	ID, Issue int
	Body      string
}

// ServeGitHub serves the interface of a repository at the host, below /api/v3.
func (h *Host) ServeGitHub(t testing.TB, r *Repository) *GitHub {
	g := &GitHub{GitHubRepository: GitHubRepository{ID: 4711}, t: t, host: h, repo: r, counts: map[string]int{}}
	mux := http.NewServeMux()
	base := "/api/v3/repos/" + r.Name
	for pattern, handle := range map[string]func(r *http.Request, in map[string]any) (int, any){
		"GET " + base: g.repository,
		"GET " + base + "/rules/branches/{branch}":   g.rules,
		"GET " + base + "/issues":                    g.listIssues,
		"GET " + base + "/issues/{n}":                g.issue,
		"GET " + base + "/issues/{n}/comments":       g.listComments,
		"POST " + base + "/issues/{n}/comments":      g.comment,
		"PATCH " + base + "/issues/comments/{n}":     g.editComment,
		"GET " + base + "/pulls":                     g.listPulls,
		"POST " + base + "/pulls":                    g.open,
		"GET " + base + "/pulls/{n}":                 g.pull,
		"PATCH " + base + "/pulls/{n}":               g.editPull,
		"PUT " + base + "/pulls/{n}/merge":           g.merge,
		"GET " + base + "/commits/{commit}/statuses": g.listStatuses,
		"POST " + base + "/statuses/{commit}":        g.status,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.counts[pattern[:strings.Index(pattern, " ")]+" "+strings.TrimPrefix(pattern[strings.Index(pattern, " ")+1:], base)]++
			in := map[string]any{}
			_ = json.NewDecoder(r.Body).Decode(&in)
			code, body := handle(r, in)
			if message, refused := body.(string); refused {
				body = map[string]any{"message": message}
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(body)
		})
	}
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+Token {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"message":"Bad credentials"}`))
			return
		}
		mux.ServeHTTP(w, r)
	})
	h.set(func() { h.api = api })
	return g
}

// Count returns how many requests there were, such as of "POST /pulls".
func (g *GitHub) Count(what string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts[what]
}

// Add adds an issue or pull request and returns its number.
func (g *GitHub) Add(e Entry) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.Number = len(g.issues) + 1
	g.issues = append(g.issues, &e)
	return e.Number
}

// Entry returns a copy of an issue or pull request.
func (g *GitHub) Entry(n int) Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return *g.issues[n-1]
}

// Comments returns the comments on an issue.
func (g *GitHub) Comments(issue int) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []string
	for _, c := range g.comments {
		if c.Issue == issue {
			list = append(list, c.Body)
		}
	}
	return list
}

func (g *GitHub) repository(*http.Request, map[string]any) (int, any) {
	r := map[string]any{
		"id": g.ID, "full_name": g.repo.Name, "clone_url": g.repo.URL, "html_url": g.host.URL + "/" + g.repo.Name,
		"default_branch": "main", "private": false, "archived": false, "has_issues": true,
		"permissions": map[string]any{"push": true}, "allow_merge_commit": true, "allow_squash_merge": true,
	}
	for name, value := range g.Settings {
		r[name] = value
	}
	return 200, r
}

func (g *GitHub) rules(*http.Request, map[string]any) (int, any) {
	return 200, append([]map[string]any{}, g.Rules...)
}

func (g *GitHub) find(r *http.Request) *Entry {
	n, _ := strconv.Atoi(r.PathValue("n"))
	if n < 1 || n > len(g.issues) {
		return &Entry{Number: -1}
	}
	return g.issues[n-1]
}

func (g *GitHub) issueJSON(e *Entry) map[string]any {
	labels := []any{}
	for _, l := range e.Labels {
		labels = append(labels, map[string]any{"name": l})
	}
	out := map[string]any{
		"number": e.Number, "title": e.Title, "body": e.Body, "state": state(e), "labels": labels, "user": map[string]any{"login": "ann"},
		"html_url": g.host.URL + "/issues/" + strconv.Itoa(e.Number), "created_at": time.Unix(int64(e.Number), 0).UTC(),
		"closed_by": map[string]any{"login": e.Who},
	}
	if e.Head != "" {
		out["pull_request"] = map[string]any{"url": "x"}
	}
	return out
}

func state(e *Entry) string {
	if e.Closed || e.Merged {
		return "closed"
	}
	return "open"
}

func (g *GitHub) listIssues(r *http.Request, _ map[string]any) (int, any) {
	list := []any{}
	for i := len(g.issues) - 1; i >= 0; i-- {
		e := g.issues[i]
		label := r.URL.Query().Get("labels")
		if state(e) == "open" && (label == "" || strings.Contains(strings.Join(e.Labels, ","), label)) {
			list = append(list, g.issueJSON(e))
		}
	}
	return 200, list
}

func (g *GitHub) issue(r *http.Request, _ map[string]any) (int, any) {
	if e := g.find(r); e.Number > 0 {
		return 200, g.issueJSON(e)
	}
	return 404, "Not Found"
}

func (g *GitHub) listComments(r *http.Request, _ map[string]any) (int, any) {
	list := []any{}
	for _, c := range g.comments {
		if strconv.Itoa(c.Issue) == r.PathValue("n") {
			list = append(list, map[string]any{"id": c.ID, "body": c.Body})
		}
	}
	return 200, list
}

func (g *GitHub) comment(r *http.Request, in map[string]any) (int, any) {
	n, _ := strconv.Atoi(r.PathValue("n"))
	body, _ := in["body"].(string)
	g.comments = append(g.comments, &Comment{len(g.comments) + 1, n, body})
	return 201, map[string]any{"id": len(g.comments)}
}

func (g *GitHub) editComment(r *http.Request, in map[string]any) (int, any) {
	n, _ := strconv.Atoi(r.PathValue("n"))
	g.comments[n-1].Body, _ = in["body"].(string)
	return 200, map[string]any{"id": n}
}

func (g *GitHub) pullJSON(e *Entry) map[string]any {
	repo := map[string]any{"id": g.ID}
	head := g.repo.Head(g.t, e.Head)
	if e.Merged {
		head = e.MergedHead
	}
	return map[string]any{
		"number": e.Number, "title": e.Title, "body": e.Body, "state": state(e), "merged": e.Merged, "merge_commit_sha": e.MergeCommit,
		"html_url": g.host.URL + "/" + g.repo.Name + "/pull/" + strconv.Itoa(e.Number), "merged_by": map[string]any{"login": e.Who},
		"head": map[string]any{"ref": e.Head, "sha": head, "repo": repo}, "base": map[string]any{"ref": e.Base, "repo": repo},
	}
}

func (g *GitHub) listPulls(r *http.Request, _ map[string]any) (int, any) {
	_, branch, _ := strings.Cut(r.URL.Query().Get("head"), ":")
	list := []any{}
	for _, e := range g.issues {
		if e.Head != "" && e.Head == branch {
			list = append(list, g.pullJSON(e))
		}
	}
	return 200, list
}

func (g *GitHub) open(_ *http.Request, in map[string]any) (int, any) {
	text := func(key string) string { s, _ := in[key].(string); return s }
	for _, e := range g.issues {
		if e.Head == text("head") && state(e) == "open" {
			return 422, map[string]any{"message": "Validation Failed", "errors": []any{
				map[string]any{"message": "A pull request already exists for acme:" + e.Head + "."}}}
		}
	}
	e := &Entry{Number: len(g.issues) + 1, Title: text("title"), Body: text("body"), Head: text("head"), Base: text("base")}
	g.issues = append(g.issues, e)
	return 201, g.pullJSON(e)
}

func (g *GitHub) pull(r *http.Request, _ map[string]any) (int, any) {
	if e := g.find(r); e.Head != "" {
		return 200, g.pullJSON(e)
	}
	return 404, "Not Found"
}

func (g *GitHub) editPull(r *http.Request, in map[string]any) (int, any) {
	e := g.find(r)
	e.Closed, e.Who = in["state"] == "closed", "svc"
	return 200, g.pullJSON(e)
}

func (g *GitHub) merge(r *http.Request, in map[string]any) (int, any) {
	e := g.find(r)
	head := g.repo.Head(g.t, e.Head)
	switch {
	case state(e) == "closed":
		return 405, "Pull Request is not mergeable"
	case in["sha"] != head:
		return 409, "Head branch was modified. Review and try the merge again."
	}
	title, _ := in["commit_title"].(string)
	message, _ := in["commit_message"].(string)
	g.Merge(e, title+"\n\n"+message, "svc")
	return 200, map[string]any{"merged": true, "sha": e.MergeCommit}
}

// Merge merges a pull request as the host does.
func (g *GitHub) Merge(e *Entry, message, who string) {
	head, base := g.repo.Head(g.t, e.Head), g.repo.Head(g.t, e.Base)
	tree := g.repo.Git(g.t, "merge-tree", "--write-tree", base, head)
	e.MergeCommit = g.repo.Git(g.t, "commit-tree", tree, "-p", base, "-p", head, "-m", message)
	g.repo.Git(g.t, "update-ref", "refs/heads/"+e.Base, e.MergeCommit)
	e.Merged, e.MergedHead, e.Who = true, head, who
}

// MergeByHand merges a pull request as a person does.
func (g *GitHub) MergeByHand(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Merge(g.issues[n-1], "Merge pull request", "ann")
}

func (g *GitHub) listStatuses(*http.Request, map[string]any) (int, any) {
	list := []any{}
	for i := len(g.statuses) - 1; i >= 0; i-- {
		list = append(list, g.statuses[i])
	}
	return 200, list
}

func (g *GitHub) status(_ *http.Request, in map[string]any) (int, any) {
	g.statuses = append(g.statuses, in)
	return 201, in
}
