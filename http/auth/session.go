package auth

import (
	"context"
	"math"
	"net/http"
	"time"

	"svc/commands"
	"svc/events"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/input"
	"svc/sessions"
)

const (
	maxPassword = 72             // bytes; bcrypt ignores the rest
	freshFor    = 24 * time.Hour // how long after sign-in sessions can be listed

	discardLimit = 2 * time.Second
)

type user struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	Email         string            `json:"email"`
	EmailVerified bool              `json:"emailVerified"`
	Image         *string           `json:"image"`
	CreatedAt     openapi.Timestamp `json:"createdAt"`
	UpdatedAt     openapi.Timestamp `json:"updatedAt"`
}

// newUser returns the person of a session. Only verified addresses are stored.
func newUser(s sessions.Session) user {
	return user{
		ID: s.User.String(), Name: s.Name, Email: s.Email, EmailVerified: true, Image: orNull(s.AvatarURL),
		CreatedAt: openapi.FormatTime(s.RegisteredAt), UpdatedAt: openapi.FormatTime(s.RegisteredAt),
	}
}

type session struct {
	ID                   string            `json:"id"`
	Token                string            `json:"token"` // a handle; the real one is only in the cookie
	UserID               string            `json:"userId"`
	ExpiresAt            openapi.Timestamp `json:"expiresAt"`
	CreatedAt            openapi.Timestamp `json:"createdAt"`
	UpdatedAt            openapi.Timestamp `json:"updatedAt"`
	IPAddress            string            `json:"ipAddress"`
	UserAgent            string            `json:"userAgent"`
	ActiveOrganizationID *string           `json:"activeOrganizationId"`
}

func newSession(s sessions.Session) session {
	out := session{
		ID: s.ID.String(), Token: s.ID.String(), UserID: s.User.String(),
		ExpiresAt: openapi.FormatTime(s.ExpiresAt), CreatedAt: openapi.FormatTime(s.CreatedAt), UpdatedAt: openapi.FormatTime(s.UpdatedAt),
		IPAddress: s.IP, UserAgent: s.UserAgent,
	}
	if s.Active != nil {
		out.ActiveOrganizationID = orNull(s.Active.String())
	}
	return out
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (s *Server) ok(*request) (any, error) { return map[string]bool{"ok": true}, nil }

func (s *Server) signUpEmail(*request) (any, error) { return nil, errSignUpDisabled }

type signIn struct {
	Email       string `json:"email"`
	Password    string `json:"password"`
	CallbackURL string `json:"callbackURL"`
	RememberMe  *bool  `json:"rememberMe"`
}

func (s *Server) signInEmail(r *request) (any, error) {
	if err := s.limitAddress(r, ""); err != nil {
		return nil, err
	}
	if !s.DevSignIn {
		return nil, errPasswordDisabled
	}
	in, err := readSignIn(r)
	if err != nil {
		return nil, err
	}
	if in.CallbackURL != "" && !s.isOwnAddress(in.CallbackURL) {
		return nil, errCallbackURL
	}
	user, home, ok, err := s.Passwords.Check(r.Context(), in.Email, in.Password)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errWrongPassword
	}
	if err := s.startSession(r, user, home, "email", in.RememberMe == nil || *in.RememberMe); err != nil {
		return nil, err
	}
	out := map[string]any{"redirect": false, "token": r.session.ID.String(), "user": newUser(r.session)}
	if in.CallbackURL != "" {
		out["redirect"], out["url"] = true, in.CallbackURL
		r.w.Header().Set("Location", in.CallbackURL)
	}
	return out, nil
}

func readSignIn(r *request) (in signIn, err error) {
	if r.mediaType() == "application/x-www-form-urlencoded" {
		if err := r.ParseForm(); err != nil {
			return in, errBadJSON
		}
		in.Email, in.Password, in.CallbackURL = r.PostForm.Get("email"), r.PostForm.Get("password"), r.PostForm.Get("callbackURL")
	} else if in, err = readBody[signIn](r); err != nil {
		return in, err
	}
	if err := requireField("email", in.Email); err != nil {
		return in, err
	}
	if err := requireField("password", in.Password); err != nil {
		return in, err
	}
	address, ok := input.TypedEmail(in.Email)
	if !ok {
		return in, errEmail
	}
	if len(in.Password) > maxPassword { // no stored password is longer
		return in, errWrongPassword
	}
	in.Email = address
	return in, nil
}

// startSession signs a person in. It always creates a new session, so that one planted in the browser does
// not become theirs.
func (s *Server) startSession(r *request, user, home events.ID, method string, remember bool) error {
	session, err := s.Sessions.Start(r.Context(), user, home, middleware.Address(r.Request), middleware.UserAgent(r.Request))
	if err != nil {
		return err
	}
	r.session = session
	err = r.recordPosition(s.Commands.RecordSignIn(r.Context(), commands.RecordSignIn{
		Meta: r.meta(home), Email: session.Email, Session: session.ID, Method: method,
	}))
	if err != nil {
		s.discardSession(r, session)
		return err
	}
	s.Sessions.SetCookie(r.w, r.Request, session, remember)
	return nil
}

// discardSession deletes a session whose sign-in could not be recorded. No browser has it, and it would be
// listed for a week.
func (s *Server) discardSession(r *request, session sessions.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), discardLimit)
	defer cancel()
	if err := s.Sessions.Discard(ctx, session); err != nil {
		s.Log.WarnContext(r.Context(), "discard a session", "err", err)
	}
}

// signOut clears the cookie only once the session has ended, so that a failed sign-out can be retried. It has
// a rate limit of its own, so that other requests cannot prevent a sign-out. The limit is by address and comes
// before the cookie is looked up, since its session may have ended already.
func (s *Server) signOut(r *request) (any, error) {
	if _, none := r.Cookie(s.Sessions.CookieName()); none == nil {
		if err := s.Limit.Allow(r.w.Header(), "sign-out "+limit.Address(r.Request)); err != nil {
			return nil, err
		}
	}
	session, ok, err := s.sessionOf(r)
	if err == nil && ok {
		r.session = session
		err = s.endSessions(r, session.ID)
	}
	if err != nil {
		return nil, err
	}
	r.w.Header().Del("Set-Cookie")
	s.clearCookies(r)
	return map[string]bool{"success": true}, nil
}

// clearCookies removes the cookies that setCookie sets.
func (s *Server) clearCookies(r *request) {
	http.SetCookie(r.w, s.Sessions.ExpiredCookie())
	if _, err := r.Cookie(s.Sessions.ForgetCookieName()); err == nil {
		http.SetCookie(r.w, s.Sessions.ExpiredForgetCookie())
	}
}

// endSessions ends sessions of the person and records it.
func (s *Server) endSessions(r *request, ids ...events.ID) error {
	return r.recordPosition(s.Commands.EndSessions(r.Context(), commands.EndSessions{Meta: r.meta(r.session.Home), Sessions: ids}))
}

// endMatching ends the person's sessions whose id matches.
func (s *Server) endMatching(r *request, matches func(id events.ID) bool) (any, error) {
	found, err := s.Sessions.ForUser(r.Context(), r.session.User, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	var ids []events.ID
	for _, one := range found {
		if matches(one.ID) {
			ids = append(ids, one.ID)
		}
	}
	return map[string]bool{"status": true}, s.endSessions(r, ids...)
}

// getSession answers null, not an error, without a session.
func (s *Server) getSession(r *request) (any, error) {
	r.w.Header().Set("Pragma", "no-cache")
	session, ok, err := s.identify(r)
	if err != nil {
		return nil, err
	}
	if !ok {
		// With an Authorization header, identify ignores the cookie, which may be valid.
		if _, err := r.Cookie(s.Sessions.CookieName()); err == nil && r.Header.Get("Authorization") == "" {
			s.clearCookies(r)
		}
		return nil, nil // null
	}
	return map[string]any{"session": newSession(session), "user": newUser(session)}, nil
}

func (s *Server) deferSession(*request) (any, error) { return nil, errDefer }

// maxSessions bounds the listed sessions of a person.
const maxSessions = 100

func (s *Server) listSessions(r *request) (any, error) {
	if s.Now().Sub(r.session.CreatedAt) >= freshFor {
		return nil, errNotFresh
	}
	found, err := s.Sessions.ForUser(r.Context(), r.session.User, maxSessions)
	if err != nil {
		return nil, err
	}
	list := []session{}
	for _, one := range found {
		list = append(list, newSession(one))
	}
	return list, nil
}

func (s *Server) revokeSession(r *request) (any, error) {
	in, err := readBody[struct {
		Token string `json:"token"`
	}](r)
	if err != nil {
		return nil, err
	}
	if err := requireField("token", in.Token); err != nil {
		return nil, err
	}
	id, err := events.ParseID(in.Token)
	return s.endMatching(r, func(one events.ID) bool { return err == nil && one == id }) // an unknown handle succeeds too
}

func (s *Server) revokeSessions(r *request) (any, error) {
	return s.endMatching(r, func(events.ID) bool { return true })
}

func (s *Server) revokeOtherSessions(r *request) (any, error) {
	return s.endMatching(r, func(one events.ID) bool { return one != r.session.ID })
}

type account struct {
	ID         string            `json:"id"`
	AccountID  string            `json:"accountId"`
	ProviderID string            `json:"providerId"`
	UserID     string            `json:"userId"`
	CreatedAt  openapi.Timestamp `json:"createdAt"`
	UpdatedAt  openapi.Timestamp `json:"updatedAt"`
	Scopes     []string          `json:"scopes"`
}

func (s *Server) listAccounts(r *request) (any, error) {
	found, err := s.Accounts.ForUser(r.Context(), r.session.User)
	if err != nil {
		return nil, err
	}
	list := []account{}
	for _, a := range found {
		list = append(list, account{
			ID: a.Key, AccountID: a.AccountID, ProviderID: a.Provider, UserID: a.User.String(),
			CreatedAt: openapi.FormatTime(a.LinkedAt), UpdatedAt: openapi.FormatTime(a.LinkedAt), Scopes: scopesOf(a.Provider),
		})
	}
	return list, nil
}
