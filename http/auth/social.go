package auth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/oauth2"

	"svc/commands"
	"svc/config"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/input"
	"svc/sessions"
)

// maxAddress bounds an address to which a browser is redirected, in bytes.
const maxAddress = 2048

func (s *Server) stateCookieName() string {
	if s.Sessions.Secure {
		return "__Secure-better-auth.state"
	}
	return "better-auth.state"
}

// signInSocial begins a sign-in. It stores a state, which can be used once and only by the browser with the
// cookie, and returns the provider's URL.
func (s *Server) signInSocial(r *request) (any, error) {
	if err := s.limitAddress(r, ""); err != nil {
		return nil, err
	}
	in, err := readBody[struct {
		Provider           *string `json:"provider"`
		CallbackURL        string  `json:"callbackURL"`
		ErrorCallbackURL   string  `json:"errorCallbackURL"`
		NewUserCallbackURL string  `json:"newUserCallbackURL"`
		DisableRedirect    bool    `json:"disableRedirect"`
	}](r)
	if err != nil {
		return nil, err
	}
	if in.Provider == nil {
		return nil, requireField("provider", "")
	}
	provider, ok := s.Providers[*in.Provider]
	switch {
	case !ok:
		return nil, errProvider
	case in.CallbackURL != "" && !s.isOwnAddress(in.CallbackURL):
		return nil, errCallbackURL
	case in.ErrorCallbackURL != "" && !s.isOwnAddress(in.ErrorCallbackURL):
		return nil, errErrorURL
	case in.NewUserCallbackURL != "" && !s.isOwnAddress(in.NewUserCallbackURL):
		return nil, errNewUserURL
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	state := base64.RawURLEncoding.EncodeToString(raw)
	verifier := oauth2.GenerateVerifier()
	err = s.States.Begin(r.Context(), state, sessions.State{
		Provider: *in.Provider, Verifier: verifier, CallbackURL: in.CallbackURL,
		ErrorCallbackURL: in.ErrorCallbackURL, NewUserURL: in.NewUserCallbackURL,
	})
	if err != nil {
		return nil, err
	}
	http.SetCookie(r.w, s.stateCookie(s.signState(state), int(sessions.StateLifetime.Seconds())))
	where := provider.authorize(state, verifier)
	if !in.DisableRedirect {
		r.w.Header().Set("Location", where)
	}
	return map[string]any{"url": where, "redirect": !in.DisableRedirect}, nil
}

func (s *Server) stateCookie(value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: s.stateCookieName(), Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: s.Sessions.Secure, SameSite: http.SameSiteLaxMode,
	}
}

// signState binds a state to the browser that began with it.
func (s *Server) signState(state string) string {
	mac := hmac.New(sha256.New, s.Sessions.Secret)
	mac.Write([]byte("state " + state))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// isOwnAddress reports whether address is a path or a URL of this service's origin, to which a browser may be
// redirected.
func (s *Server) isOwnAddress(address string) bool {
	u, err := url.Parse(address)                                                          // fails for unescaped control characters
	if err != nil || u.User != nil || len(address) > maxAddress || input.URLHasToken(u) { // it would be stored
		return false
	}
	if strings.HasPrefix(u.Path, "//") || strings.ContainsFunc(u.Path, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) {
		return false // browsers treat the decoded path as another host
	}
	if u.Scheme == "" && u.Host == "" {
		return strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//")
	}
	return input.Origin(u) == s.Origin
}

// callback ends a sign-in. It always redirects the browser, unless its address exceeds the limit.
func (s *Server) callback(r *request) (any, error) {
	if err := s.limitAddress(r, "callback "); err != nil {
		return nil, err
	}
	name := r.PathValue("provider")
	state, err := s.consumeState(r, name)
	http.SetCookie(r.w, s.stateCookie("", -1))
	if err != nil && r.URL.Query().Get("error") == errRedirect.Error() {
		return s.redirectWithError(r, sessions.State{}, errRedirect, "") // arrives at the registered address, without our cookie
	}
	if err != nil {
		return s.redirectWithError(r, state, err, "")
	}
	q := r.URL.Query()
	if q.Get("error") != "" {
		return s.redirectWithError(r, state, providerError(cleanText(q.Get("error"))), cleanText(q.Get("error_description")))
	}
	who, token, err := s.Providers[name].exchange(r.Context(), q.Get("code"), state.Verifier)
	if err != nil {
		return s.redirectWithError(r, state, err, "")
	}
	made, err := s.signInProfile(r, name, who)
	if err != nil {
		return s.redirectWithError(r, state, err, "")
	}
	if err := s.storeToken(r.Context(), r.session.User, name, token); err != nil {
		s.Log.WarnContext(r.Context(), "store the provider's token", "err", err)
	}
	where := state.CallbackURL
	if made && state.NewUserURL != "" {
		where = state.NewUserURL
	}
	if where == "" {
		where = "/"
	}
	http.Redirect(r.w, r.Request, where, http.StatusFound)
	return nil, errAnswered
}

// signInProfile signs in the person whose profile the provider returned. isNew reports whether
// they were registered by it. A profile whose account or address belongs to somebody else fails
// with errNotLinked.
func (s *Server) signInProfile(r *request, provider string, p profile) (isNew bool, err error) {
	person, err := s.Commands.SignIn(r.Context(), commands.SignIn{
		Meta: r.meta(events.ID{}),
		Account: events.UserAccountLinked{
			Provider: provider, Host: s.Providers[provider].host, Account: strconv.FormatInt(p.ID, 10), Login: p.Login,
		},
		Name: p.displayName(), Emails: p.emails, AvatarURL: p.AvatarURL,
	})
	if errors.Is(err, commands.ErrNotLinked) {
		return false, fmt.Errorf("%w: %w", errNotLinked, err)
	}
	if err != nil {
		return false, err
	}
	return person.New, s.startSession(r, person.User, person.Home, provider, true)
}

// callbackForm redirects a provider's POST to the GET.
func (s *Server) callbackForm(r *request) (any, error) {
	if err := s.limitAddress(r, "callback form "); err != nil {
		return nil, err
	}
	if err := r.ParseForm(); err != nil {
		return nil, errBadJSON
	}
	answer := r.PostForm
	maps.Copy(answer, r.URL.Query()) // the query takes precedence
	http.Redirect(r.w, r.Request, r.URL.Path+"?"+answer.Encode(), http.StatusFound)
	return nil, errAnswered
}

// Errors of a callback without a valid state.
const (
	errState         publicError = "state_mismatch"
	errNoState       publicError = "state_not_found"
	errNoOAuthClient publicError = "oauth_provider_not_found"
)

var errUnknownState = fmt.Errorf("%w: no sign-in has this state", errState)

// consumeState returns the state of the sign-in and invalidates it, if the browser's cookie matches. If it does
// not, the state stays valid, and the returned one has only the address for errors, if it is known.
func (s *Server) consumeState(r *request, provider string) (state sessions.State, err error) {
	random := r.URL.Query().Get("state")
	var refusal error = errState
	signed := s.signState(random)
	own := func(c *http.Cookie) bool { return hmac.Equal([]byte(c.Value), []byte(signed)) } // others may be of other applications
	switch {
	case s.Providers[provider] == nil:
		refusal = errNoOAuthClient
	case random == "":
		return state, errNoState
	case slices.ContainsFunc(r.CookiesNamed(s.stateCookieName()), own):
		state, ok, err := s.States.Take(r.Context(), random)
		if err == nil && (!ok || state.Provider != provider) {
			err = errState
		}
		return s.withOwnAddresses(r.Context(), state), err
	}
	var known bool
	state.ErrorCallbackURL, known, err = s.States.ErrorURL(r.Context(), random)
	state = s.withOwnAddresses(r.Context(), state)
	if !known && errors.Is(refusal, errState) {
		refusal = errUnknownState
	}
	return state, cmp.Or[error](err, refusal)
}

// withOwnAddresses drops addresses of other sites from a stored state. They were checked before they were
// stored, so somebody has changed the row since.
func (s *Server) withOwnAddresses(ctx context.Context, state sessions.State) sessions.State {
	for _, address := range []*string{&state.CallbackURL, &state.ErrorCallbackURL, &state.NewUserURL} {
		if *address != "" && !s.isOwnAddress(*address) {
			s.Log.ErrorContext(ctx, "sign-in leads to another site: its row was changed: ignored")
			*address = ""
		}
	}
	return state
}

// cleanText returns a provider's text as valid UTF-8 of at most 200 characters, with tokens redacted.
func cleanText(s string) string {
	s = input.MaskTokens(strings.ToValidUTF8(s, ""))
	if runes := []rune(s); len(runes) > 200 {
		s = string(runes[:200])
	}
	return s
}

// redirectWithError redirects the browser with an error code: to the state's ErrorCallbackURL, or to our own
// error page with the request id and the address to retry. It logs the error. An unknown error has the code
// internal_server_error.
func (s *Server) redirectWithError(r *request, state sessions.State, err error, description string) (any, error) {
	level := slog.LevelWarn
	switch {
	case description != "": // from the provider, for example because the person declined
		level = slog.LevelInfo
	case errors.Is(err, errUnknownState), errors.Is(err, errNoState), errors.Is(err, errNoOAuthClient): // anybody can cause these
		level = slog.LevelDebug
	}
	s.Log.Log(r.Context(), level, "sign-in failed", "err", err)
	reason := publicCode(err)
	q := url.Values{"error": {reason}}
	if description != "" {
		q.Set("error_description", description)
	}
	where := state.ErrorCallbackURL
	if where == "" {
		where = s.Origin + prefix + "/error"
		q.Set("request_id", middleware.RequestID(r.Context()))
		if name := r.PathValue("provider"); s.Providers[name] != nil {
			q.Set("provider", name)
		}
		if state.CallbackURL != "" {
			q.Set("callbackURL", state.CallbackURL)
		}
	}
	where, fragment, _ := strings.Cut(where, "#")
	separator := "?"
	if strings.Contains(where, "?") {
		separator = "&"
	}
	where += separator + q.Encode()
	if fragment != "" {
		where += "#" + fragment
	}
	http.Redirect(r.w, r.Request, where, http.StatusFound)
	return nil, errAnswered
}

// providerError returns the error whose code a provider has sent. Text that is no code is not public.
func providerError(code string) error {
	if strings.ContainsAny(code, " :") {
		return errors.New(code)
	}
	return publicError(code)
}

// publicCode returns the code of an error that the browser may be shown, else internal_server_error.
func publicCode(err error) string {
	if public, ok := errors.AsType[publicError](err); ok {
		return public.Error()
	}
	if f := fault.As(err); f != nil && f.Kind == fault.RateLimited { // the person has signed in too often today
		return f.Code
	}
	return "internal_server_error"
}

// storeToken stores the provider's token, encrypted.
func (s *Server) storeToken(ctx context.Context, user events.ID, provider string, token *oauth2.Token) error {
	return s.Tokens.Put(ctx, user, provider, config.Secret(token.AccessToken))
}
