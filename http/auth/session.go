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
	"svc/input"
	"svc/sessions"
)

const (
	maxPassword = 72             // bytes; bcrypt reads no more
	fresh       = 24 * time.Hour // how long after sign-in a person may list sessions

	discardLimit = 2 * time.Second
)

type user struct {
	ID            string  `json:"id"`
	Name          string  `json:"name"`
	Email         string  `json:"email"`
	EmailVerified bool    `json:"emailVerified"`
	Image         *string `json:"image"`
	CreatedAt     string  `json:"createdAt"`
	UpdatedAt     string  `json:"updatedAt"`
}

// newUser describes the person of a session. Only verified addresses are kept.
func newUser(s sessions.Session) user {
	return user{
		ID: s.User.String(), Name: s.Name, Email: s.Email, EmailVerified: true, Image: orNull(s.AvatarURL),
		CreatedAt: at(s.RegisteredAt), UpdatedAt: at(s.RegisteredAt),
	}
}

type session struct {
	ID                   string  `json:"id"`
	Token                string  `json:"token"` // a handle; the real one is only in the cookie
	UserID               string  `json:"userId"`
	ExpiresAt            string  `json:"expiresAt"`
	CreatedAt            string  `json:"createdAt"`
	UpdatedAt            string  `json:"updatedAt"`
	IPAddress            string  `json:"ipAddress"`
	UserAgent            string  `json:"userAgent"`
	ActiveOrganizationID *string `json:"activeOrganizationId"`
}

func newSession(s sessions.Session) session {
	out := session{
		ID: s.ID.String(), Token: s.ID.String(), UserID: s.User.String(),
		ExpiresAt: at(s.ExpiresAt), CreatedAt: at(s.CreatedAt), UpdatedAt: at(s.UpdatedAt),
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

// at writes a time with exactly three digits of a second: the client misreads
// any other number of them.
func at(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func (s *Server) ok(*visit) (any, error) { return map[string]bool{"ok": true}, nil }

func (s *Server) signUpEmail(*visit) (any, error) { return nil, errSignUpDisabled }

type signIn struct {
	Email       string `json:"email"`
	Password    string `json:"password"`
	CallbackURL string `json:"callbackURL"`
	RememberMe  *bool  `json:"rememberMe"`
}

func (s *Server) signInEmail(v *visit) (any, error) {
	if err := s.signInLimit.Allow(v.Context(), v.w.Header(), limit.Address(v.Request)); err != nil {
		return nil, err
	}
	if !s.devSignIn {
		return nil, errPasswordDisabled
	}
	in, err := readSignIn(v)
	if err != nil {
		return nil, err
	}
	if in.CallbackURL != "" && !s.trusted(in.CallbackURL) {
		return nil, errCallbackURL
	}
	user, home, ok, err := s.passwords.Check(v.Context(), in.Email, in.Password)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errWrongPassword
	}
	if err := s.start(v, user, home, "email", in.RememberMe == nil || *in.RememberMe); err != nil {
		return nil, err
	}
	out := map[string]any{"redirect": false, "token": v.session.ID.String(), "user": newUser(v.session)}
	if in.CallbackURL != "" {
		out["redirect"], out["url"] = true, in.CallbackURL
		v.w.Header().Set("Location", in.CallbackURL)
	}
	return out, nil
}

func readSignIn(v *visit) (in signIn, err error) {
	if v.mediaType() == "application/x-www-form-urlencoded" {
		if err := v.ParseForm(); err != nil {
			return in, errBadJSON
		}
		in.Email, in.Password, in.CallbackURL = v.PostForm.Get("email"), v.PostForm.Get("password"), v.PostForm.Get("callbackURL")
	} else if in, err = read[signIn](v); err != nil {
		return in, err
	}
	if err := need("email", in.Email); err != nil {
		return in, err
	}
	if err := need("password", in.Password); err != nil {
		return in, err
	}
	address, ok := input.Email(in.Email)
	if !ok {
		return in, errEmail
	}
	if len(in.Password) > maxPassword { // which nobody has
		return in, errWrongPassword
	}
	in.Email = address
	return in, nil
}

// start signs a person in: a new session in any case, so that none that was
// planted in the browser beforehand becomes theirs.
func (s *Server) start(v *visit, user, home events.ID, method string, remember bool) error {
	session, err := s.sessions.Start(v.Context(), user, home, middleware.Address(v.Request), middleware.UserAgent(v.Request))
	if err != nil {
		return err
	}
	v.session = session
	_, err = s.commands.RecordSignIn(v.Context(), commands.RecordSignIn{
		Meta: v.meta(home), Email: session.Email, Session: session.ID, Method: method,
	})
	if err != nil {
		s.discard(v, session)
		return err
	}
	s.setCookie(v, session, remember)
	return nil
}

// discard ends a session that could not be recorded, and that no browser has: it
// would be listed for a week.
func (s *Server) discard(v *visit, session sessions.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), discardLimit)
	defer cancel()
	if err := s.sessions.Discard(ctx, session); err != nil {
		s.log.WarnContext(v.Context(), "discard a session", "err", err)
	}
}

// signOut takes the cookie only when the session has ended: whoever is told that
// something went wrong can try again.
func (s *Server) signOut(v *visit) (any, error) {
	session, ok, err := s.sessionOf(v)
	if err == nil && ok {
		v.session = session
		err = s.end(v, session.ID)
	}
	if err != nil {
		return nil, err
	}
	v.w.Header().Del("Set-Cookie")
	s.takeCookies(v)
	return map[string]bool{"success": true}, nil
}

// takeCookies takes from the browser what setCookie gave it.
func (s *Server) takeCookies(v *visit) {
	http.SetCookie(v.w, s.sessions.ExpiredCookie())
	if _, err := v.Cookie(s.sessions.ForgetCookieName()); err == nil {
		http.SetCookie(v.w, s.sessions.ExpiredForgetCookie())
	}
}

// end ends sessions of the person, and writes it down.
func (s *Server) end(v *visit, ids ...events.ID) error {
	_, err := s.commands.EndSessions(v.Context(), commands.EndSessions{Meta: v.meta(v.session.Home), Sessions: ids})
	return err
}

// endThose ends those of the person's sessions that are meant.
func (s *Server) endThose(v *visit, meant func(id events.ID) bool) (any, error) {
	found, err := s.sessions.ForUser(v.Context(), v.session.User, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	var ids []events.ID
	for _, one := range found {
		if meant(one.ID) {
			ids = append(ids, one.ID)
		}
	}
	return map[string]bool{"status": true}, s.end(v, ids...)
}

// getSession answers null, not an error, to whoever is not signed in.
func (s *Server) getSession(v *visit) (any, error) {
	v.w.Header().Set("Pragma", "no-cache")
	session, ok, err := s.identify(v)
	if err != nil {
		return nil, err
	}
	if !ok {
		if _, err := v.Cookie(s.sessions.CookieName()); err == nil && v.Header.Get("Authorization") == "" { // or it was not looked at
			s.takeCookies(v)
		}
		return nil, nil // null is the answer
	}
	return map[string]any{"session": newSession(session), "user": newUser(session)}, nil
}

func (s *Server) deferSession(*visit) (any, error) { return nil, errDefer }

// maxSessions is how many of a person's are listed.
const maxSessions = 100

func (s *Server) listSessions(v *visit) (any, error) {
	if s.now().Sub(v.session.CreatedAt) >= fresh {
		return nil, errNotFresh
	}
	found, err := s.sessions.ForUser(v.Context(), v.session.User, maxSessions)
	if err != nil {
		return nil, err
	}
	list := []session{}
	for _, one := range found {
		list = append(list, newSession(one))
	}
	return list, nil
}

func (s *Server) revokeSession(v *visit) (any, error) {
	in, err := read[struct {
		Token string `json:"token"`
	}](v)
	if err != nil {
		return nil, err
	}
	if err := need("token", in.Token); err != nil {
		return nil, err
	}
	id, err := events.ParseID(in.Token)
	return s.endThose(v, func(one events.ID) bool { return err == nil && one == id }) // an unknown handle is answered alike
}

func (s *Server) revokeSessions(v *visit) (any, error) {
	return s.endThose(v, func(events.ID) bool { return true })
}

func (s *Server) revokeOtherSessions(v *visit) (any, error) {
	return s.endThose(v, func(one events.ID) bool { return one != v.session.ID })
}

type account struct {
	ID         string   `json:"id"`
	AccountID  string   `json:"accountId"`
	ProviderID string   `json:"providerId"`
	UserID     string   `json:"userId"`
	CreatedAt  string   `json:"createdAt"`
	UpdatedAt  string   `json:"updatedAt"`
	Scopes     []string `json:"scopes"`
}

func (s *Server) listAccounts(v *visit) (any, error) {
	found, err := s.accounts.ForUser(v.Context(), v.session.User)
	if err != nil {
		return nil, err
	}
	list := []account{}
	for _, a := range found {
		list = append(list, account{
			ID: a.Key, AccountID: a.AccountID, ProviderID: a.Provider, UserID: a.User.String(),
			CreatedAt: at(a.LinkedAt), UpdatedAt: at(a.LinkedAt), Scopes: scopesOf(a.Provider),
		})
	}
	return list, nil
}
