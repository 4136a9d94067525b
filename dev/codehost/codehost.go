// Package codehost is a code host for development and tests. People sign in with it as they would
// with GitHub; it has GitHub's OAuth, user, issue and pull request APIs, repositories that git clones
// and pushes to, and pages.
//
//	GET  /login/oauth/authorize     authorization page: choose a person, or deny
//	POST /login/oauth/authorize     302 to the application with code and state
//	POST /login/oauth/access_token  exchanges a code for a token
//	GET  /user, /user/emails        the owner of the token
//	     /api/v3/…                  GitHub's interface, see githubRoutes
//	     /api/v1/repos/…            Gitea's, see giteaRoutes
//	GET  /avatars/{login}           an SVG
//	     /{owner}/{name}.git/…      repositories, for git
//	     /{owner}/{name}/…          pages of repositories, issues and pull requests
//	     /_test/…                   counters of effects, and faults, for tests
//	GET  /healthz                   200 {"status":"ok"}
//
// The user API is at / and, as in GitHub Enterprise, at /api/v3, and at /api/v1 with the field names and
// the scopes of Gitea and Forgejo.
//
// There is no authentication: whoever reaches the host can be anybody. So it accepts only requests
// for loopback names.
package codehost

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"svc/dev/codehost/api"
	"svc/dev/codehost/bare"
	"svc/dev/codehost/counts"
	"svc/dev/codehost/faults"
	"svc/dev/codehost/hooks"
	"svc/dev/codehost/oauth"
	"svc/dev/codehost/people"
	"svc/dev/codehost/record"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/reply"
)

// Config configures a host.
type Config struct {
	Clients []oauth.Client
	People  []people.Person  // offered by the authorization page, in this order
	Dir     string           // folder of the repositories; without one there are none
	Repos   []Repository     // imported if Dir lacks them
	Hooks   *hooks.Sender    // tells of changes; nil tells nobody
	Tokens  []Token          // besides those of people who have signed in
	Faults  bool             // tests may inject faults
	Limit   *limit.Limit     // rate limit by address; nil means none
	Now     func() time.Time // clock for the expiry of codes and tokens
	Log     *slog.Logger
}

var (
	errHost = fault.New(fault.Denied, "host_refused", "This code host answers to the names of loopback only.")
)

// Bounds of the bytes of a form, of an issue or its like, and of a push.
const (
	maxForm = 16 << 10
	maxJSON = 1 << 20
	maxPush = 256 << 20
)

// How long git may take, and another request, which a fault may delay for a minute.
const (
	maxPushTime  = 5 * time.Minute
	maxFaultTime = 90 * time.Second
)

type host struct {
	people *people.Directory
	signIn *oauth.Server
	limit  *limit.Limit
	log    *slog.Logger
	clock  func() time.Time

	folder       string // of the repositories
	repositories record.Repositories
	backend      *bare.Backend
	tokens       tokens
	counts       *counts.Counts
	faults       *faults.Rules // nil if they are off
	hours        api.Hours
	hooks        *hooks.Sender
}

// now is the time to the second, as GitHub tells it.
func (h *host) now() time.Time { return h.clock().UTC().Truncate(time.Second) }

// New returns the host. It returns an error for inconsistent clients, people, tokens or repositories.
func New(ctx context.Context, cfg Config) (http.Handler, error) {
	known, err := people.NewDirectory(cfg.People)
	if err != nil {
		return nil, err
	}
	h := &host{
		people: known, counts: counts.New(), limit: cfg.Limit, log: cfg.Log, clock: cfg.Now, folder: cfg.Dir, hooks: cfg.Hooks,
	}
	if cfg.Faults {
		h.faults = &faults.Rules{Refuse: api.Refuse}
	}
	if h.tokens, err = newTokens(cfg.Tokens, known); err != nil {
		return nil, err
	}
	if h.signIn, err = oauth.NewServer(cfg.Clients, cfg.Now); err != nil {
		return nil, err
	}
	if err := h.openFolder(ctx, cfg.Repos); err != nil {
		return nil, err
	}
	return middleware.Traced(cfg.Log, h.limited(h.routes())), nil
}

// limited gives each kind of request its limits.
func (h *host) limited(next http.Handler) http.Handler {
	of := func(body int64, time time.Duration) http.Handler {
		return middleware.Limited(middleware.Limits{Body: body, Time: time}, h.admit(body, h.faults.Inject(next)))
	}
	git, signIn, other := of(maxPush, maxPushTime), of(maxForm, 0), of(maxJSON, maxFaultTime)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isGit(r):
			git.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/login/"):
			signIn.ServeHTTP(w, r)
		default:
			other.ServeHTTP(w, r)
		}
	})
}

// openFolder opens and imports repositories, if there is a folder.
func (h *host) openFolder(ctx context.Context, list []Repository) (err error) {
	if h.folder == "" {
		if len(list) > 0 {
			return errors.New("repositories need a folder")
		}
		return nil
	}
	h.backend, err = bare.NewBackend(filepath.Join(h.folder, ".hooks"), h.log)
	if errors.Is(err, exec.ErrNotFound) { // people can sign in without it
		h.log.Warn("git is not on the PATH, so there are no repositories")
		return nil
	}
	if err != nil {
		return err
	}
	return h.openAll(ctx, h.folder, list)
}

func (h *host) routes() http.Handler {
	mux, forms := http.NewServeMux(), http.NewCrossOriginProtection()
	forms.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		show(w, http.StatusForbidden, message{"Not from here", "This answer came from another site, so it does not count."})
	}))
	mux.HandleFunc("GET /login/oauth/authorize", h.authorizePage)
	mux.Handle("POST /login/oauth/authorize", forms.Handler(http.HandlerFunc(h.decide)))
	mux.HandleFunc("POST /login/oauth/access_token", h.exchange)
	for _, api := range []string{"", "/api/v3"} {
		mux.HandleFunc("GET "+api+"/user", h.serve(needToken, getUser))
		mux.HandleFunc("GET "+api+"/user/emails", h.emails)
	}
	mux.HandleFunc("GET /api/v1/user", h.giteaUser)
	mux.HandleFunc("GET /api/v1/user/emails", h.giteaEmails)
	mux.HandleFunc("POST /api/v1/user/repos", h.giteaNewRepo)
	mux.HandleFunc("GET /avatars/{login}", h.avatar)
	if h.backend != nil {
		mux.HandleFunc("GET /{owner}/{name}/info/refs", h.git("/info/refs"))
		mux.HandleFunc("POST /{owner}/{name}/"+uploadPack, h.git("/"+uploadPack))
		mux.HandleFunc("POST /{owner}/{name}/"+receivePack, h.git("/"+receivePack))
		h.githubRoutes(mux)
		h.giteaRoutes(mux)
	}
	h.pageRoutes(mux, forms)
	h.testRoutes(mux)
	mux.HandleFunc("GET /style.css", style)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		reply.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /{$}", h.homePage)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { api.Refuse(w, http.StatusNotFound, "Not Found") })
	return mux
}

// admit rejects malformed forms, requests that exceed the rate limit, and requests for other host
// names, which come from pages that use DNS rebinding.
func (h *host) admit(maxBody int64, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := reply.CheckRequest(r, maxBody)
		switch {
		case err != nil:
		case !oauth.Loopback(r.Host):
			err = errHost
		default:
			err = h.limit.Allow(w.Header(), middleware.Address(r))
		}
		if err != nil {
			reply.Error(w, r, h.log, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
