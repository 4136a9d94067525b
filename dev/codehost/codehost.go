// Package codehost is a code host for development and tests. People sign in with it as they would
// with GitHub; it has GitHub's OAuth and user APIs.
//
//	GET  /login/oauth/authorize     authorization page: choose a person, or deny
//	POST /login/oauth/authorize     302 to the application with code and state
//	POST /login/oauth/access_token  exchanges a code for a token
//	GET  /user, /user/emails        the owner of the token
//	GET  /avatars/{login}           an SVG
//	GET  /{owner}/{name}.git/…      repositories, for git to clone
//	GET  /healthz                   200 {"status":"ok"}
//
// The user API is also at /api/v3, as in GitHub Enterprise, and at /api/v1 with the field names and
// the scopes of Gitea and Forgejo.
//
// There is no authentication: whoever reaches the host can be anybody. So it accepts only requests
// for loopback names, and stores nothing on disk.
package codehost

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"svc/config"
	"svc/fault"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/reply"
)

// Config configures a host.
type Config struct {
	Clients []Client
	People  []Person         // offered by the authorization page, in this order
	Repos   []Repository     // can be cloned by anybody who reaches the host
	Limit   *limit.Limit     // rate limit by address; nil means none
	Now     func() time.Time // clock for the expiry of codes and tokens
	Log     *slog.Logger
}

// A Client is a registered application.
type Client struct {
	ID       string
	Name     string // shown to people; ID if empty
	Secret   config.Secret
	Callback string // absolute http or https URL; redirects to paths below it are allowed
}

var (
	errHost = fault.New(fault.Denied, "host_refused", "This code host answers to the names of loopback only.")
)

// maxForm bounds the bytes of a form.
const maxForm = 16 << 10

type host struct {
	clients map[string]*client
	people  *directory
	grants  *grants
	limit   *limit.Limit
	log     *slog.Logger

	repositories map[string]packed // by owner/name
}

type client struct {
	Client
	callback *url.URL
}

// New returns the host. It returns an error for inconsistent clients, people or repositories.
func New(cfg Config) (http.Handler, error) {
	people, err := newDirectory(cfg.People)
	if err != nil {
		return nil, err
	}
	h := &host{
		clients: map[string]*client{}, people: people, grants: newGrants(cfg.Now),
		limit: cfg.Limit, log: cfg.Log, repositories: map[string]packed{},
	}
	for _, r := range cfg.Repos {
		if h.repositories[r.Name], err = r.pack(); err != nil {
			return nil, err
		}
	}
	for _, c := range cfg.Clients {
		callback, err := parseRedirect(c.Callback)
		switch {
		case err != nil:
			return nil, fmt.Errorf("client %s: callback: %w", c.ID, err)
		case c.ID == "" || c.Secret == "" || h.clients[c.ID] != nil:
			return nil, fmt.Errorf("client %q: want an id of its own and a secret", c.ID)
		}
		h.clients[c.ID] = &client{c, callback}
	}
	return middleware.Traced(cfg.Log, middleware.Limited(middleware.Limits{Body: maxForm}, h.admit(h.routes()))), nil
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
		mux.HandleFunc("GET "+api+"/user", h.user)
		mux.HandleFunc("GET "+api+"/user/emails", h.emails)
	}
	mux.HandleFunc("GET /api/v1/user", h.giteaUser)
	mux.HandleFunc("GET /api/v1/user/emails", h.giteaEmails)
	mux.HandleFunc("POST /api/v1/user/repos", h.giteaNewRepo)
	mux.HandleFunc("GET /avatars/{login}", h.avatar)
	mux.HandleFunc("GET /{owner}/{name}/info/refs", h.refs)
	mux.HandleFunc("POST /{owner}/{name}/"+uploadPack, h.upload)
	mux.HandleFunc("GET /{owner}/{name}/issues/{number}", placeholder("issues"))
	for _, pulls := range []string{"pull", "pulls"} { // paths of GitHub and of Gitea
		mux.HandleFunc("GET /{owner}/{name}/"+pulls+"/{number}", placeholder("pull requests"))
		mux.HandleFunc("GET /{owner}/{name}/"+pulls+"/{number}/files", placeholder("changes"))
	}
	mux.HandleFunc("GET /style.css", style)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		reply.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		show(w, http.StatusOK, message{"A code host for development", "There is nothing to do here. Begin where you want to sign in."})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "Not Found") })
	return mux
}

// admit rejects malformed forms, requests that exceed the rate limit, and requests for other host
// names, which come from pages that use DNS rebinding.
func (h *host) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := reply.CheckRequest(r, maxForm)
		switch {
		case err != nil:
		case !loopback(r.Host):
			err = errHost
		default:
			err = h.limit.Allow(r.Context(), w.Header(), middleware.Address(r))
		}
		if err != nil {
			reply.Error(w, r, h.log, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether host, with or without a port, names this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && addr.Unmap().IsLoopback()
}
