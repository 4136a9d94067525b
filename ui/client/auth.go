package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// auth is the prefix of the routes that are compatible with Better Auth, which the OpenAPI
// description does not contain.
const auth = "/api/auth"

// A Person is the signed-in person.
type Person struct {
	User struct {
		ID, Name, Email string
	}
	Session struct {
		ID                   string
		ActiveOrganizationID *string
	}
}

// Person returns the signed-in person. ok is false if nobody is signed in.
func (s *Session) Person(ctx context.Context) (p Person, ok bool, err error) {
	found, err := Decode[*Person](s.request(ctx, http.MethodGet, auth+"/get-session", nil))
	if err != nil || found == nil {
		return p, false, err
	}
	return *found, true, nil
}

// An OwnWorkspace is a workspace that the person is a member of. The role is in lower case. LastActiveAt is when the person
// last used it, nil for never.
type OwnWorkspace struct {
	ID, Name, Slug, Role string
	CreatedAt            time.Time
	LastActiveAt         *time.Time
}

// OwnWorkspaces lists the workspaces that the person is a member of.
func (s *Session) OwnWorkspaces(ctx context.Context) ([]OwnWorkspace, error) {
	return Decode[[]OwnWorkspace](s.request(ctx, http.MethodGet, auth+"/organization/list", nil))
}

// An OwnDeletedWorkspace is a workspace of the person that was deleted and can be restored until PurgeAt.
type OwnDeletedWorkspace struct {
	ID, Name, Slug           string
	DeletedBy, DeletedByName string
	DeletedAt, PurgeAt       time.Time
}

// AllOwnWorkspaces lists the workspaces of [Session.OwnWorkspaces], and those that were deleted and that the person can restore.
func (s *Session) AllOwnWorkspaces(ctx context.Context) (list []OwnWorkspace, deleted []OwnDeletedWorkspace, err error) {
	all, err := Decode[[]struct {
		OwnWorkspace
		DeletedBy, DeletedByName string

		DeletedAt *time.Time
		PurgeAt   time.Time
	}](s.request(ctx, http.MethodGet, auth+"/organization/list?deleted=true", nil))
	for _, w := range all {
		if w.DeletedAt == nil {
			list = append(list, w.OwnWorkspace)
		} else {
			deleted = append(deleted, OwnDeletedWorkspace{w.ID, w.Name, w.Slug, w.DeletedBy, w.DeletedByName, *w.DeletedAt, w.PurgeAt})
		}
	}
	return list, deleted, err
}

// CreateWorkspace creates a workspace that the person owns, and returns it.
func (s *Session) CreateWorkspace(ctx context.Context, name, slug string) (OwnWorkspace, error) {
	return Decode[OwnWorkspace](s.request(ctx, http.MethodPost, auth+"/organization/create", map[string]string{"name": name, "slug": slug}))
}

// An OwnInvitation is an invitation to the person. Its role is in lower case.
type OwnInvitation struct {
	ID, OrganizationName, OrganizationSlug, Role, Status string
	InviterID                                            string
	ExpiresAt                                            time.Time
}

// OwnInvitations lists the invitations to an address that the person has verified.
func (s *Session) OwnInvitations(ctx context.Context) ([]OwnInvitation, error) {
	list, err := Decode[[]OwnInvitation](s.request(ctx, http.MethodGet, auth+"/organization/list-user-invitations", nil))
	if r := AsRefused(err); r != nil && r.Status == http.StatusBadRequest { // this route's answer if nobody is signed in
		r.Status = http.StatusUnauthorized
	}
	return list, err
}

// OwnInvitation returns an invitation with the slug of its workspace, which the list does not have.
func (s *Session) OwnInvitation(ctx context.Context, id string) (OwnInvitation, error) {
	return Decode[OwnInvitation](s.request(ctx, http.MethodGet, auth+"/organization/get-invitation?id="+url.QueryEscape(id), nil))
}

// AnswerInvitation accepts or rejects an invitation.
func (s *Session) AnswerInvitation(ctx context.Context, id string, accept bool) error {
	path := auth + "/organization/reject-invitation"
	if accept {
		path = auth + "/organization/accept-invitation"
	}
	return CheckResponse(s.request(ctx, http.MethodPost, path, map[string]string{"invitationId": id}))
}

// A Device is a session of the person.
type Device struct {
	ID, Token, IPAddress, UserAgent string
	CreatedAt, UpdatedAt, ExpiresAt time.Time
}

// Devices lists the sessions of the person. A day after the sign-in the service refuses it
// with SESSION_NOT_FRESH.
func (s *Session) Devices(ctx context.Context) ([]Device, error) {
	return Decode[[]Device](s.request(ctx, http.MethodGet, auth+"/list-sessions", nil))
}

// EndDevice ends a session of the person. token is the handle from [Session.Devices], not a secret.
func (s *Session) EndDevice(ctx context.Context, token string) error {
	return CheckResponse(s.request(ctx, http.MethodPost, auth+"/revoke-session", map[string]string{"token": token}))
}

// EndOtherDevices ends all sessions of the person but this one.
func (s *Session) EndOtherDevices(ctx context.Context) error {
	return CheckResponse(s.request(ctx, http.MethodPost, auth+"/revoke-other-sessions", struct{}{}))
}

// SignOut ends this session.
func (s *Session) SignOut(ctx context.Context) error {
	return CheckResponse(s.request(ctx, http.MethodPost, auth+"/sign-out", struct{}{}))
}

// SignIn starts a sign-in at a provider, such as "github", and returns the provider's address to
// redirect the browser to. The provider redirects it back to one of the two paths of the app.
func (s *Session) SignIn(ctx context.Context, provider, to, onError string) (*url.URL, error) {
	begun, err := Decode[struct{ URL string }](s.request(ctx, http.MethodPost, auth+"/sign-in/social", map[string]any{
		"provider": provider, "callbackURL": to, "errorCallbackURL": onError, "disableRedirect": true,
	}))
	if err != nil {
		return nil, err
	}
	return url.Parse(begun.URL)
}

// A Provider is a code host that people sign in with.
type Provider struct {
	ID          string   // as in the path of the sign-in link
	Name        string   // such as "GitHub"
	Scopes      []string // the permissions that it is asked for
	RedirectURI string   // must be registered with the provider
}

// SignInMethods are the ways to sign in.
type SignInMethods struct {
	Providers []Provider
	Password  bool // for the people of the demonstration
}

// SignInMethods returns the ways to sign in. It requires no session.
func (s *Session) SignInMethods(ctx context.Context) (SignInMethods, error) {
	return Decode[SignInMethods](s.request(ctx, http.MethodGet, auth+"/providers", nil))
}

// SignInPassword signs in a person of the demonstration.
func (s *Session) SignInPassword(ctx context.Context, email, password string) error {
	return CheckResponse(s.request(ctx, http.MethodPost, auth+"/sign-in/email", map[string]string{"email": email, "password": password}))
}
