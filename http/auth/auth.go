// Package auth serves /api/auth, where people sign in and out. Its bodies and
// codes are those of the Better Auth project, so that its browser client works.
package auth

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/mail"
	"strings"

	"github.com/julienschmidt/httprouter"

	"svc/fault"
	"svc/http/limit"
	"svc/http/reply"
	"svc/sessions"
)

// Why sign-in is refused.
var (
	errNotFound    = fault.New(fault.NotFound, "NOT_FOUND", "There is nothing here.")
	errMethod      = fault.New(fault.MethodNotAllowed, "METHOD_NOT_ALLOWED", "This path has no such method.")
	errBadJSON     = fault.New(fault.Malformed, "BAD_REQUEST", "Invalid JSON in request body")
	errBadEmail    = fault.New(fault.Malformed, "INVALID_EMAIL", "Invalid email")
	errWrong       = fault.New(fault.Unauthenticated, "INVALID_EMAIL_OR_PASSWORD", "Invalid email or password")
	errDisabled    = fault.New(fault.Malformed, "EMAIL_PASSWORD_DISABLED", "Email and password sign-in is not enabled")
	errFields      = fault.New(fault.Malformed, "VALIDATION_ERROR", "The request is not valid.")
	errMediaType   = fault.New(fault.UnsupportedMedia, "UNSUPPORTED_MEDIA_TYPE", "Send the body as application/json.")
	errCrossOrigin = fault.New(fault.Denied, "cross_origin_refused", "This request came from another site.")
)

const (
	maxEmail    = 320 // bytes
	maxPassword = 72  // bytes; bcrypt reads no more
)

// A Server answers sign-in requests.
type Server struct {
	Sessions  *sessions.Store
	Passwords sessions.Passwords
	Limit     *limit.Limit // of sign-ins by each address; nil is none
	DevSignIn bool         // the demonstration people may sign in with a password
	Log       *slog.Logger
}

// Handler returns everything under /api/auth.
func (s *Server) Handler() http.Handler {
	mux := httprouter.New()
	mux.RedirectTrailingSlash, mux.RedirectFixedPath, mux.HandleOPTIONS = false, false, false
	mux.NotFound = s.serve(func(http.ResponseWriter, *http.Request) error { return errNotFound })
	mux.MethodNotAllowed = s.serve(func(http.ResponseWriter, *http.Request) error { return errMethod })
	mux.Handler(http.MethodGet, "/api/auth/ok", s.serve(s.ok))
	mux.Handler(http.MethodPost, "/api/auth/sign-in/email", s.serve(s.signInEmail))
	mux.Handler(http.MethodPost, "/api/auth/sign-out", s.serve(s.signOut))
	mux.Handler(http.MethodGet, "/api/auth/get-session", s.serve(s.getSession))
	return mux
}

// serve answers what a handler returns as its error. Writes that come from
// another site are refused.
func (s *Server) serve(handle func(http.ResponseWriter, *http.Request) error) http.Handler {
	sameSite := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := reply.CheckForm(r)
		if err == nil && sameSite.Check(r) != nil {
			err = errCrossOrigin
		}
		if err == nil {
			err = handle(w, r)
		}
		if err != nil {
			reply.Error(w, r, s.Log, err)
		}
	})
}

func (s *Server) ok(w http.ResponseWriter, _ *http.Request) error {
	reply.JSON(w, http.StatusOK, map[string]bool{"ok": true})
	return nil
}

type signIn struct {
	Email       string  `json:"email"`
	Password    string  `json:"password"`
	CallbackURL *string `json:"callbackURL"`
	RememberMe  *bool   `json:"rememberMe"`
}

func (s *Server) signInEmail(w http.ResponseWriter, r *http.Request) error {
	ip := reply.Address(r)
	if err := s.Limit.Allow(r.Context(), w.Header(), ip); err != nil {
		return err
	}
	if !s.DevSignIn {
		return errDisabled
	}
	in, err := readSignIn(r)
	if err != nil {
		return err
	}
	user, workspace, ok, err := s.Passwords.Check(r.Context(), in.Email, in.Password)
	switch {
	case err != nil:
		return err
	case !ok:
		return errWrong
	}
	session, err := s.Sessions.Start(r.Context(), user, workspace, ip, reply.UserAgent(r))
	if err != nil {
		return err
	}
	http.SetCookie(w, s.Sessions.Cookie(session))
	reply.JSON(w, http.StatusOK, map[string]any{"redirect": false, "token": session.ID.String(), "user": newUser(session)})
	return nil
}

func readSignIn(r *http.Request) (in signIn, err error) {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "application/json", "":
		err = readJSON(r, &in)
	case "application/x-www-form-urlencoded":
		err = unreadable(r.ParseForm())
		in.Email, in.Password = r.PostForm.Get("email"), r.PostForm.Get("password")
	default:
		err = errMediaType
	}
	if err != nil {
		return in, err
	}
	switch {
	case in.Email == "" || len(in.Email) > maxEmail || strings.ContainsRune(in.Email, 0):
		return in, errFields.With("email", []string{"must be an e-mail address"})
	case in.Password == "" || len(in.Password) > maxPassword:
		return in, errFields.With("password", []string{"must have 1 to 72 bytes"})
	}
	if address, err := mail.ParseAddress(in.Email); err != nil || address.Address != in.Email {
		return in, errBadEmail
	}
	return in, nil
}

func readJSON(r *http.Request, into any) error {
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return unreadable(err)
}

// unreadable says what is wrong with a body that could not be read.
func unreadable(err error) error {
	if err == nil {
		return nil
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return reply.ErrTooLarge
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return errFields.With(cmp.Or(wrong.Field, "body"), []string{"has the wrong type"})
	}
	return errBadJSON
}

func (s *Server) signOut(w http.ResponseWriter, r *http.Request) error {
	if cookie, err := r.Cookie(s.Sessions.CookieName()); err == nil {
		if err := s.Sessions.End(r.Context(), cookie.Value); err != nil {
			return err
		}
	}
	http.SetCookie(w, s.Sessions.NoCookie())
	reply.JSON(w, http.StatusOK, map[string]bool{"success": true})
	return nil
}

// getSession answers null, not an error, to whoever is not signed in.
func (s *Server) getSession(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Pragma", "no-cache")
	cookie, err := r.Cookie(s.Sessions.CookieName())
	if err != nil {
		reply.JSON(w, http.StatusOK, nil)
		return nil
	}
	session, renewed, ok, err := s.Sessions.Find(r.Context(), cookie.Value)
	switch {
	case err != nil:
		return err
	case !ok:
		http.SetCookie(w, s.Sessions.NoCookie())
		reply.JSON(w, http.StatusOK, nil)
		return nil
	case renewed:
		http.SetCookie(w, s.Sessions.Cookie(session))
	}
	reply.JSON(w, http.StatusOK, map[string]any{"session": newSession(session), "user": newUser(session)})
	return nil
}
