package githost

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Forge is a code host with issues and pull requests over one repository, in memory. It has a face for each kind.
type Forge struct {
	Traits

	t    testing.TB
	host *Host
	repo *Repository

	mu       sync.Mutex
	entries  []*Entry
	comments []*Comment
	statuses []status
	counts   map[Effect]int
}

// Traits are what a test may change.
type Traits struct {
	ID          int64
	Settings    map[string]any   // replace fields of the repository
	Rules       []map[string]any // of the branch, as GitHub has them
	Branch      map[string]any   // replace fields of the branch, as Gitea has them
	Protections []map[string]any // likewise

	Busy     int    // merges that are refused for now
	Stale    string // head that is shown of every pull request, whatever it is
	Unmarked bool   // pull requests that were merged are shown as open
	Tree     string // that a merge gets instead of the right one
}

// Change changes the forge.
func (f *Forge) Change(do func(*Traits)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(&f.Traits)
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

// open reports whether the entry is shown as open.
func (f *Forge) open(e *Entry) bool { return !e.Closed && (!e.Merged || f.Unmarked) }

func (f *Forge) state(e *Entry) string {
	if f.open(e) {
		return "open"
	}
	return "closed"
}

// head returns the head of a pull request.
func (f *Forge) head(e *Entry) string {
	switch {
	case f.Stale != "":
		return f.Stale
	case e.Merged:
		return e.MergedHead
	}
	return f.repo.Head(f.t, e.Head)
}

// A Comment is a comment on an issue.
type Comment struct {
	ID, Issue int
	Body      string
}

type status struct{ state, context, text string }

// An Effect is something that a client does to a forge.
type Effect string

// The effects.
const (
	Proposes  Effect = "proposes"
	Merges    Effect = "merges"
	Comments  Effect = "comments"
	SetStatus Effect = "sets a status"
)

// A call answers a request with a status and a body. A text is the message of a refusal.
type call func(r *http.Request, in map[string]any) (int, any)

// A route is a call, which may be an effect.
type route struct {
	call
	effect Effect
}

// Serve serves the interface of a kind for a repository at the host, and returns its address.
func (h *Host) Serve(t testing.TB, r *Repository, kind string) (f *Forge, address string) {
	f = &Forge{Traits: Traits{ID: 4711}, t: t, host: h, repo: r, counts: map[Effect]int{}}
	path, routes := "/api/v3", f.gitHub
	if kind == "gitea" {
		path, routes = "/api/v1", f.gitea
	}
	mux := http.NewServeMux()
	for pattern, route := range routes() {
		method, below, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+path+"/repos/"+r.Name+below, func(w http.ResponseWriter, r *http.Request) { f.answer(w, r, route) })
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
	return f, h.URL + path
}

func (f *Forge) answer(w http.ResponseWriter, r *http.Request, to route) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[to.effect]++
	in := map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&in)
	code, body := to.call(r, in)
	switch list := body.(type) {
	case string:
		body = map[string]any{"message": list}
	case []any:
		body = page(w, r, list)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// page returns a page of a list: at most 50, whatever is asked for, as Gitea does.
func page(w http.ResponseWriter, r *http.Request, list []any) []any {
	const size = 50
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	first := min(max(n-1, 0)*size, len(list))
	if first+size < len(list) {
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(max(n, 1)+1))
		w.Header().Set("Link", "<http://"+r.Host+r.URL.Path+"?"+query.Encode()+`>; rel="next"`)
	}
	return list[first:min(first+size, len(list))]
}

// Count returns how often something was done.
func (f *Forge) Count(what Effect) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[what]
}

// Add adds an issue or pull request and returns its number.
func (f *Forge) Add(e Entry) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.add(&e).Number
}

func (f *Forge) add(e *Entry) *Entry {
	e.Number = len(f.entries) + 1
	f.entries = append(f.entries, e)
	return e
}

// Entry returns a copy of an issue or pull request.
func (f *Forge) Entry(n int) Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.entries[n-1]
}

// Comments returns the comments on an issue.
func (f *Forge) Comments(issue int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, c := range f.comments {
		if c.Issue == issue {
			list = append(list, c.Body)
		}
	}
	return list
}

// number returns the number in a request's path.
func number(r *http.Request) int {
	n, _ := strconv.Atoi(r.PathValue("n"))
	return n
}

// found returns the entry that a request names, nil if there is none.
func (f *Forge) found(r *http.Request) *Entry {
	if n := number(r); n >= 1 && n <= len(f.entries) {
		return f.entries[n-1]
	}
	return nil
}

// newest returns what the entries that are wanted are shown as, the newest first.
func (f *Forge) newest(show func(*Entry) any, want func(*Entry) bool) []any {
	list := []any{}
	for i := len(f.entries) - 1; i >= 0; i-- {
		if want(f.entries[i]) {
			list = append(list, show(f.entries[i]))
		}
	}
	return list
}

// issue returns what both kinds show of an issue.
func (f *Forge) issue(e *Entry) map[string]any {
	labels := []any{}
	for _, l := range e.Labels {
		labels = append(labels, map[string]any{"name": l})
	}
	return map[string]any{
		"number": e.Number, "title": e.Title, "body": e.Body, "state": f.state(e), "labels": labels, "user": map[string]any{"login": "ann"},
		"html_url": f.host.URL + "/issues/" + strconv.Itoa(e.Number), "created_at": time.Unix(int64(e.Number), 0).UTC(),
	}
}

func (f *Forge) listComments(r *http.Request, _ map[string]any) (int, any) {
	list := []any{}
	for _, c := range f.comments {
		if c.Issue == number(r) {
			list = append(list, map[string]any{"id": c.ID, "body": c.Body})
		}
	}
	return 200, list
}

func (f *Forge) addComment(r *http.Request, in map[string]any) (int, any) {
	body, _ := in["body"].(string)
	f.comments = append(f.comments, &Comment{len(f.comments) + 1, number(r), body})
	return 201, map[string]any{"id": len(f.comments)}
}

func (f *Forge) editComment(r *http.Request, in map[string]any) (int, any) {
	f.comments[number(r)-1].Body, _ = in["body"].(string)
	return 200, map[string]any{"id": number(r)}
}

// openPull adds a pull request unless there is an open one of its branch.
func (f *Forge) openPull(in map[string]any) *Entry {
	text := func(key string) string { s, _ := in[key].(string); return s }
	for _, e := range f.entries {
		if e.Head == text("head") && f.open(e) {
			return nil
		}
	}
	return f.add(&Entry{Title: text("title"), Body: text("body"), Head: text("head"), Base: text("base")})
}

func (f *Forge) closePull(e *Entry, in map[string]any) {
	e.Closed, e.Who = in["state"] == "closed", "svc"
}

// merge merges a pull request as the host does.
func (f *Forge) merge(e *Entry, message, who string) {
	head, base := f.repo.Head(f.t, e.Head), f.repo.Head(f.t, e.Base)
	tree := f.Tree
	if tree == "" {
		tree = f.repo.Git(f.t, "merge-tree", "--write-tree", base, head)
	}
	e.MergeCommit = f.repo.Git(f.t, "commit-tree", tree, "-p", base, "-p", head, "-m", message)
	f.repo.Git(f.t, "update-ref", "refs/heads/"+e.Base, e.MergeCommit)
	e.Merged, e.MergedHead, e.Who = true, head, who
}

// MergeByHand merges a pull request as a person does.
func (f *Forge) MergeByHand(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.merge(f.entries[n-1], "Merge pull request", "ann")
}

// CloseByHand closes a pull request as a person does.
func (f *Forge) CloseByHand(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries[n-1].Closed, f.entries[n-1].Who = true, "ann"
}

// busy reports whether this merge is refused for now.
func (f *Forge) busy() bool {
	f.Busy--
	return f.Busy >= 0
}

// conflicts reports whether a pull request cannot be merged.
func (f *Forge) conflicts(e *Entry) bool {
	base := f.repo.Git(f.t, "merge-base", e.Base, e.Head)
	return strings.Contains(f.repo.Git(f.t, "merge-tree", base, e.Base, e.Head), "\n+<<<<<<<")
}

func (f *Forge) setStatus(_ *http.Request, in map[string]any) (int, any) {
	text := func(key string) string { s, _ := in[key].(string); return s }
	f.statuses = append(f.statuses, status{text("state"), text("context"), text("description")})
	return 201, in
}

// with returns the fields with others in their place.
func with(fields, others map[string]any) map[string]any {
	maps.Copy(fields, others)
	return fields
}
