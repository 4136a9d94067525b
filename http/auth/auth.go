package auth

import (
	"log/slog"
	"net/http"
	"time"

	"svc/commands"
	"svc/http/fair"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/router"
	"svc/projections"
	"svc/sessions"
)

const prefix = "/api/auth"

// NewSignIns returns the semaphore of requests without a session. They have one of their own, so that nobody who
// has a session waits for callers without one, who may have any number of addresses.
func NewSignIns() *fair.Semaphore {
	return fair.New(fair.Bound{Name: "sign_ins", Slots: 32, Queue: 4096, Wait: 20 * time.Second, Retry: time.Second})
}

// Config configures a Server. Only the limits are optional.
type Config struct {
	Commands    *commands.Handler
	Users       projections.Users
	Accounts    projections.Accounts
	Workspaces  projections.Workspaces
	Members     projections.Members
	Invitations projections.Invitations
	Keys        Keys
	Sessions    *sessions.Store
	States      sessions.States
	Passwords   sessions.Passwords
	Tokens      Tokens
	Providers   map[string]*Provider // by the name in callback/:provider
	Origin      string               // address of the service for browsers, as input.Origin returns it
	Limit       *limit.Limit         // request rate of each caller, shared with /api/v1; nil means unlimited
	SignInLimit *limit.Limit         // rate of sign-ins and of callbacks of each address; nil means unlimited
	Reads       *fair.Semaphore      // concurrent GETs with a session, shared with /api/v1; nil means unlimited
	Writes      *fair.Semaphore      // concurrent requests with other methods and a session, shared with /api/v1; nil means unlimited
	Bodies      *fair.Semaphore      // bodies of requests with other methods and a session, shared with /api/v1; nil means unlimited
	SignIns     *fair.Semaphore      // concurrent requests with other methods and without a session; nil means unlimited
	DevSignIn   bool                 // whether the demonstration people may sign in with a password
	Now         func() time.Time
	Log         *slog.Logger
}

// A Server answers requests under /api/auth.
type Server struct {
	Config

	sameSite *middleware.SameSite
}

// New returns a server that is ready to answer.
func New(c Config) *Server {
	byProvider := "POST " + prefix + "/callback/{provider}" // only redirects to the GET
	return &Server{Config: c, sameSite: middleware.NewSameSite(c.Origin, byProvider)}
}

// routes returns all routes. A test checks that each has a recorded conversation.
func (s *Server) routes() []route {
	return []route{
		{"GET", "/ok", public(s.ok)},
		{"GET", "/error", public(s.errorPage)},
		{"GET", "/error.css", public(s.errorCSS)},
		{"GET", "/providers", public(s.listProviders)},
		{"POST", "/sign-up/email", public(s.signUpEmail)},
		{"POST", "/sign-in/email", public(s.signInEmail)},
		{"POST", "/sign-in/social", public(s.signInSocial)},
		{"GET", "/callback/:provider", public(s.callback)},
		{"POST", "/callback/:provider", public(s.callbackForm)},
		{"GET", "/get-session", public(s.getSession)},
		{"POST", "/get-session", public(s.deferSession)},
		{"POST", "/sign-out", public(s.signOut)},
		{"GET", "/list-sessions", signedIn(s.listSessions)},
		{"POST", "/revoke-session", signedIn(s.revokeSession)},
		{"POST", "/revoke-sessions", signedIn(s.revokeSessions)},
		{"POST", "/revoke-other-sessions", signedIn(s.revokeOtherSessions)},
		{"GET", "/list-accounts", signedIn(s.listAccounts)},

		{"POST", "/organization/create", signedInOr(errCreateUnauthorized, s.createOrganization)},
		{"POST", "/organization/check-slug", signedIn(s.checkSlug)},
		{"GET", "/organization/list", signedIn(s.listOrganizations)},
		{"POST", "/organization/set-active", signedIn(s.setActive)},
		{"GET", "/organization/get-full-organization", signedIn(s.getFullOrganization)},
		{"GET", "/organization/get-organization", signedIn(s.getOrganization)},
		{"POST", "/organization/update", signedIn(s.updateOrganization)},
		{"POST", "/organization/delete", signedIn(s.deleteOrganization)},

		{"GET", "/organization/list-members", signedIn(s.listMembers)},
		{"GET", "/organization/get-active-member", signedIn(s.getActiveMember)},
		{"GET", "/organization/get-active-member-role", signedIn(s.getActiveMemberRole)},
		{"POST", "/organization/has-permission", signedIn(s.hasPermission)},
		{"POST", "/organization/update-member-role", signedIn(s.updateMemberRole)},
		{"POST", "/organization/remove-member", signedIn(s.removeMember)},
		{"POST", "/organization/leave", signedIn(s.leave)},

		{"POST", "/organization/invite-member", signedIn(s.inviteMember)},
		{"POST", "/organization/cancel-invitation", signedIn(s.cancelInvitation)},
		{"POST", "/organization/accept-invitation", signedIn(s.acceptInvitation)},
		{"POST", "/organization/reject-invitation", signedIn(s.rejectInvitation)},
		{"GET", "/organization/get-invitation", signedInOr(errNotAuthenticated, s.getInvitation)},
		{"GET", "/organization/list-invitations", signedIn(s.listInvitations)},
		{"GET", "/organization/list-user-invitations", signedInOr(errMissingSession, s.listUserInvitations)},
	}
}

// A route is an operation under /api/auth.
type route struct {
	method, path string // the path is under /api/auth
	handle       handler
}

// limits are the limits of every route. The largest body has three addresses for redirects. Bodies of sign-ins
// hold no slot while they arrive, so they must stay small.
var limits = middleware.Limits{Body: 8 << 10}

// Handler returns the handler of /api/auth.
func (s *Server) Handler() http.Handler {
	routes := router.New(s.serve(public(func(*request) (any, error) { return nil, errNotFound })), nil)
	for _, r := range s.routes() {
		routes.Handle(router.Route{Method: r.method, Path: prefix + r.path, Limits: limits, Handler: s.serve(r.handle)})
	}
	return routes
}
