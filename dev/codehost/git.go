package codehost

import (
	"net/http"
	"strings"

	"svc/dev/codehost/bare"
	"svc/dev/codehost/faults"
	"svc/dev/codehost/record"
)

// Services of git.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// isGit reports whether a request is one of git's.
func isGit(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/info/refs") || strings.HasSuffix(r.URL.Path, "/"+uploadPack) ||
		strings.HasSuffix(r.URL.Path, "/"+receivePack)
}

// git serves a repository: to read to everybody who may see it, and to push to.
func (h *host) git(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		service := strings.TrimPrefix(path, "/")
		if path == "/info/refs" {
			service = r.URL.Query().Get("service")
		}
		if service != uploadPack && service != receivePack {
			http.Error(w, "Please upgrade your git client.", http.StatusForbidden)
			return
		}
		a, ok := h.credentials(r)
		h.counts.Request(a.login)
		repo, known := h.repositories.Find(r.PathValue("owner") + "/" + strings.TrimSuffix(r.PathValue("name"), ".git"))
		switch {
		case !ok:
			askForCredentials(w, "Invalid username or token. Password authentication is not supported for Git operations.")
		case !known && !a.known:
			askForCredentials(w, "Authentication is required.")
		case !known:
			http.Error(w, "Repository not found.", http.StatusNotFound) // git prints the text
		case !refusedGit(w, repo, a, service == receivePack):
			h.serveGit(w, r, repo, path, a)
		}
	}
}

// refusedGit answers a request that may not be served.
func refusedGit(w http.ResponseWriter, repo *record.Repository, a access, pushes bool) bool {
	repo.Lock()
	defer repo.Unlock()
	switch {
	case !a.known && (pushes || !a.mayRead(repo)):
		askForCredentials(w, "Authentication is required.")
	case !a.mayRead(repo):
		http.Error(w, "Repository not found.", http.StatusNotFound)
	case pushes && !a.mayPush(repo):
		http.Error(w, "Permission to "+repo.Name+".git denied to "+a.login+".", http.StatusForbidden)
	default:
		return false
	}
	return true
}

func (h *host) serveGit(w http.ResponseWriter, r *http.Request, repo *record.Repository, path string, a access) {
	in, err := bare.Spool(r)
	if err != nil {
		http.Error(w, "The request could not be read.", http.StatusBadRequest)
		return
	}
	defer in.Body.Close()
	if path == "/"+receivePack {
		h.push(w, in, repo, a)
		return
	}
	h.backend.Serve(w, in, repo.Bare, path, bare.Visit{User: a.login, Push: a.push, Workflows: true})
}

func askForCredentials(w http.ResponseWriter, text string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
	http.Error(w, text, http.StatusUnauthorized)
}

// push receives a push, and brings everything up to date with it even if the client has gone meanwhile.
func (h *host) push(w http.ResponseWriter, r *http.Request, repo *record.Repository, a access) {
	repo.Lock()
	defer repo.Unlock()
	before, err := repo.Bare.Refs(r.Context())
	if err != nil {
		h.log.ErrorContext(r.Context(), "push", "err", err)
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	h.backend.Serve(w, r, repo.Bare, "/"+receivePack, bare.Visit{
		User: a.login, Push: true, Workflows: a.workflows, Refuse: faults.RefusedPush(r.Context()),
	})
	ctx, cancel := lasting(r.Context())
	defer cancel()
	if err := h.pushed(ctx, repo, before, a.login); err != nil {
		h.log.ErrorContext(ctx, "sync after a push", "repository", repo.Name, "err", err)
	}
}
