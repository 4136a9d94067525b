package codehost

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"svc/dev/codehost/api"
	"svc/dev/codehost/bare"
	"svc/dev/codehost/record"
)

// pageRoutes are the pages of repositories. Nobody is authenticated: forms name the person who acts.
func (h *host) pageRoutes(mux *http.ServeMux, forms *http.CrossOriginProtection) {
	const repo = "/{owner}/{name}"
	for _, pulls := range []string{"pull", "pulls"} { // paths of GitHub and of Gitea
		mux.HandleFunc("GET "+repo+"/"+pulls+"/{number}", h.page(pullPage, "pull requests"))
		mux.HandleFunc("GET "+repo+"/"+pulls+"/{number}/files", h.page(pullPage, "changes"))
	}
	mux.HandleFunc("GET "+repo+"/issues/{number}", h.page(issuePage, "issues"))
	mux.HandleFunc("GET "+repo, h.page(filesPage, ""))
	mux.HandleFunc("GET "+repo+"/tree/{path...}", h.page(filesPage, ""))
	mux.HandleFunc("GET "+repo+"/blob/{path...}", h.page(filePage, ""))
	mux.HandleFunc("GET "+repo+"/commits", h.page(commitsPage, ""))
	mux.HandleFunc("GET "+repo+"/commit/{id}", h.page(commitPage, ""))
	mux.HandleFunc("GET "+repo+"/issues", h.page(issuesPage, ""))
	mux.HandleFunc("GET "+repo+"/pulls", h.page(pullsPage, ""))
	mux.Handle("POST "+repo+"/issues", forms.Handler(h.page(newIssue, "")))
	mux.Handle("POST "+repo+"/issues/{number}", forms.Handler(h.page(act, "")))
	mux.Handle("POST "+repo+"/pull/{number}", forms.Handler(h.page(act, "")))
}

// A view is a request for a page. repo is locked while it lasts.
type view struct {
	*http.Request
	w    http.ResponseWriter
	h    *host
	repo *record.Repository
}

// page makes a handler of a page. Where the repository or the number is missing, a placeholder stands for
// what, if that is not empty: runs of the demonstration link to it.
func (h *host) page(handle func(*view) error, what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		repo, known := h.repositories.Find(r.PathValue("owner") + "/" + r.PathValue("name"))
		if !known {
			placeholder(w, r, what)
			return
		}
		repo.Lock()
		defer repo.Unlock()
		ctx := r.Context()
		if r.Method != http.MethodGet {
			lasts, cancel := lasting(ctx)
			defer cancel()
			ctx = lasts
		}
		err := handle(&view{r.WithContext(ctx), w, h, repo})
		refused, isRefusal := errors.AsType[*api.Error](err)
		switch {
		case err == nil:
		case errors.Is(err, bare.ErrNotFound) || errors.Is(err, api.ErrNotFound):
			placeholder(w, r, what)
		case isRefusal:
			show(w, refused.Status, message{"That did not work", refused.Sentence()})
		default:
			h.log.ErrorContext(ctx, "page failed", "err", err)
			show(w, http.StatusInternalServerError, message{"That did not work", "Something went wrong here."})
		}
	}
}

// A layout is what pages of a repository have in common.
type layout struct {
	Title, Repo, Tab string
	Clone            string
	Issues, Pulls    int // open ones
	People           []choice
}

func (v *view) layout(title, tab string) layout {
	out := layout{Title: title + " · " + v.repo.Name, Repo: v.repo.Name, Tab: tab, Clone: api.Base(v.Request) + "/" + v.repo.Name + ".git"}
	for _, i := range v.repo.Issues {
		switch {
		case i.Closed:
		case i.Pull != nil:
			out.Pulls++
		default:
			out.Issues++
		}
	}
	for _, p := range v.h.people.All() {
		out.People = append(out.People, newChoice(p, ""))
	}
	return out
}

// show renders a page of the repository.
func (v *view) show(name string, data any) error {
	v.w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "+
		"frame-ancestors 'none'; form-action 'self'")
	render(v.w, http.StatusOK, name, data)
	return nil
}

// homePage lists the repositories.
func (h *host) homePage(w http.ResponseWriter, _ *http.Request) {
	type row struct {
		Name           string
		Issues, Pulls  int
		Private, Empty bool
	}
	var rows []row
	for _, r := range h.repositories.All() {
		r.Lock()
		one := row{Name: r.Name, Private: r.Private}
		for _, i := range r.Issues {
			if !i.Closed && i.Pull != nil {
				one.Pulls++
			} else if !i.Closed {
				one.Issues++
			}
		}
		r.Unlock()
		rows = append(rows, one)
	}
	w.Header().Set("Content-Security-Policy", quietPolicy)
	render(w, http.StatusOK, "home", struct {
		Title string
		Rows  []row
	}{"A code host for development", rows})
}

// at splits a path into a branch or a commit, and a path below it.
func (v *view) at() (ref, id, path string, err error) {
	path = v.PathValue("path")
	if path == "" {
		id, err = v.repo.Bare.Resolve(v.Context(), v.repo.DefaultBranch)
		return v.repo.DefaultBranch, id, "", err
	}
	parts := strings.Split(path, "/")
	for n := 1; n <= len(parts); n++ {
		ref = strings.Join(parts[:n], "/")
		if id, err = v.repo.Bare.Resolve(v.Context(), ref); err == nil {
			return ref, id, strings.Join(parts[n:], "/"), nil
		}
	}
	return "", "", "", err
}

// filesPage shows a folder.
func filesPage(v *view) error {
	page := struct {
		layout
		Ref, Path string
		Files     []bare.Entry
		Last      *bare.Commit
		Readme    string
	}{layout: v.layout("Files", "code"), Ref: v.repo.DefaultBranch}
	ref, id, path, err := v.at()
	switch {
	case errors.Is(err, bare.ErrNotFound) && v.PathValue("path") == "":
		return v.show("files", page) // it is empty
	case err != nil:
		return err
	}
	page.Ref, page.Path = ref, path
	if page.Files, err = v.repo.Bare.Files(v.Context(), id, path); err != nil {
		return err
	}
	last, err := v.repo.Bare.Commit(v.Context(), id)
	if err != nil {
		return err
	}
	page.Last = &last
	if text, err := v.repo.Bare.File(v.Context(), id, strings.TrimPrefix(path+"/README.md", "/")); err == nil {
		page.Readme = string(text)
	}
	return v.show("files", page)
}

// maxShown bounds the bytes of a file that a page shows.
const maxShown = 256 << 10

// filePage shows a file.
func filePage(v *view) error {
	ref, id, path, err := v.at()
	if err != nil {
		return err
	}
	text, err := v.repo.Bare.File(v.Context(), id, path)
	if err != nil {
		return err
	}
	shown := string(text[:min(len(text), maxShown)])
	if strings.Contains(shown, "\x00") {
		shown = "This is a binary file."
	}
	return v.show("file", struct {
		layout
		Ref, Path, Text string
	}{v.layout(path, "code"), ref, path, shown})
}

// shownCommits is how many commits the page lists.
const shownCommits = 50

func commitsPage(v *view) error {
	commits := []bare.Commit{}
	id, err := v.repo.Bare.Resolve(v.Context(), v.repo.DefaultBranch)
	if err == nil {
		commits, err = v.repo.Bare.Log(v.Context(), shownCommits, id)
	}
	if err != nil && !errors.Is(err, bare.ErrNotFound) {
		return err
	}
	return v.show("commits", struct {
		layout
		Ref     string
		Commits []bare.Commit
	}{v.layout("Commits", "commits"), v.repo.DefaultBranch, commits})
}

// A changedFile is a file of a diff.
type changedFile struct {
	bare.Change
	Lines []patchLine
}

// A patchLine is a line of a diff; Kind is a class of the style.
type patchLine struct{ Kind, Text string }

func newChangedFiles(changes []bare.Change) (list []changedFile) {
	for _, c := range changes {
		f := changedFile{Change: c}
		for line := range strings.SplitSeq(c.Patch, "\n") {
			kind := ""
			switch {
			case strings.HasPrefix(line, "+"):
				kind = "plus"
			case strings.HasPrefix(line, "-"):
				kind = "minus"
			case strings.HasPrefix(line, "@@"):
				kind = "hunk"
			}
			f.Lines = append(f.Lines, patchLine{kind, line})
		}
		list = append(list, f)
	}
	return list
}

func commitPage(v *view) error {
	id := v.PathValue("id")
	if !bare.IsID(id) {
		return api.ErrNotFound
	}
	c, err := v.repo.Bare.Commit(v.Context(), id)
	if err != nil {
		return err
	}
	parent := ""
	if len(c.Parents) > 0 {
		parent = c.Parents[0]
	}
	changes, err := v.repo.Bare.Diff(v.Context(), parent, id)
	if err != nil {
		return err
	}
	return v.show("commit", struct {
		layout
		Commit   bare.Commit
		Statuses []*record.Status
		Files    []changedFile
	}{v.layout(c.Title(), "commits"), c, v.repo.StatusesOf(id), newChangedFiles(changes)})
}

// seeOther takes the browser to a page of the repository.
func (v *view) seeOther(path string) error {
	to := url.URL{Path: "/" + v.repo.Name + path}
	http.Redirect(v.w, v.Request, to.String(), http.StatusSeeOther)
	return nil
}

// pageTime formats a time on pages.
func pageTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04") + " UTC" }

// short is the beginning of a commit id.
func short(id string) string { return id[:min(len(id), 7)] }
