package auth

import (
	"log/slog"
	"net/http"
	"time"

	"svc/commands"
	"svc/http/limit"
	"svc/http/router"
	"svc/projections"
	"svc/sessions"
)

const prefix = "/api/auth"

// Config is what a server works with. All fields are needed but the limits.
type Config struct {
	Commands    *commands.Handler
	Accounts    projections.Accounts
	Workspaces  projections.Workspaces
	Members     projections.Members
	Invitations projections.Invitations
	Keys        Keys
	Sessions    *sessions.Store
	States      sessions.States
	Passwords   sessions.Passwords
	Tokens      Tokens
	Providers   map[string]*Provider // by the name that is in callback/:provider
	Origin      string               // where browsers reach the service, as input.Origin has it, such as https://svc.example.com
	Limit       *limit.Limit         // of requests by each caller, the one of /api/v1; nil is none
	SignInLimit *limit.Limit         // of sign-ins by each address; nil is none
	DevSignIn   bool                 // the demonstration people may sign in with a password
	Now         func() time.Time
	Log         *slog.Logger
}

// A Server answers the requests.
type Server struct {
	commands    *commands.Handler
	accounts    projections.Accounts
	workspaces  projections.Workspaces
	members     projections.Members
	invitations projections.Invitations
	keys        Keys
	sessions    *sessions.Store
	states      sessions.States
	passwords   sessions.Passwords
	tokens      Tokens
	providers   map[string]*Provider
	origin      string
	limit       *limit.Limit
	signInLimit *limit.Limit
	devSignIn   bool
	now         func() time.Time
	log         *slog.Logger

	sameSite *http.CrossOriginProtection
}

// New returns a server that is ready to answer.
func New(c Config) *Server {
	s := &Server{
		commands: c.Commands, accounts: c.Accounts, workspaces: c.Workspaces, members: c.Members, invitations: c.Invitations,
		keys: c.Keys, sessions: c.Sessions, states: c.States, passwords: c.Passwords, tokens: c.Tokens,
		providers: c.Providers, origin: c.Origin, limit: c.Limit, signInLimit: c.SignInLimit, devSignIn: c.DevSignIn,
		now: c.Now, log: c.Log,
		sameSite: http.NewCrossOriginProtection(),
	}
	s.sameSite.AddInsecureBypassPattern("POST " + prefix + "/callback/{provider}") // providers post; it only leads on to the GET
	return s
}

// routes is the whole surface.
func (s *Server) routes() []route {
	return []route{
		{"GET", "/ok", anybody(s.ok)},
		{"GET", "/error", anybody(s.errorPage)},
		{"GET", "/error.css", anybody(s.errorCSS)},
		{"GET", "/providers", anybody(s.listProviders)},
		{"POST", "/sign-up/email", anybody(s.signUpEmail)},
		{"POST", "/sign-in/email", anybody(s.signInEmail)},
		{"POST", "/sign-in/social", anybody(s.signInSocial)},
		{"GET", "/callback/:provider", anybody(s.callback)},
		{"POST", "/callback/:provider", anybody(s.callbackForm)},
		{"GET", "/get-session", anybody(s.getSession)},
		{"POST", "/get-session", anybody(s.deferSession)},
		{"POST", "/sign-out", anybody(s.signOut)},
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

// A route is a row of the surface.
type route struct {
	method, path string // the path is under /api/auth
	handle       handler
}

// Handler returns everything under /api/auth.
func (s *Server) Handler() http.Handler {
	routes := router.New(s.serve(anybody(func(*visit) (any, error) { return nil, errNotFound })), nil)
	for _, r := range s.routes() {
		routes.Handle(router.Route{Method: r.method, Path: prefix + r.path, Handler: s.serve(r.handle)})
	}
	return routes
}
