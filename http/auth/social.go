package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/oauth2"

	"svc/config"
	"svc/events"
	"svc/http/limit"
	"svc/http/middleware"
	"svc/input"
	"svc/sessions"
)

// maxAddress is how many bytes an address may have to which a browser is sent on.
const maxAddress = 2048

func (s *Server) stateCookieName() string {
	if s.sessions.Secure {
		return "__Secure-better-auth.state"
	}
	return "better-auth.state"
}

// signInSocial begins a sign-in: it keeps a state that can be taken up once,
// by the browser that holds the cookie, and says where to go.
func (s *Server) signInSocial(v *visit) (any, error) {
	if err := s.signInLimit.Allow(v.Context(), v.w.Header(), limit.Address(v.Request)); err != nil {
		return nil, err
	}
	in, err := read[struct {
		Provider           *string `json:"provider"`
		CallbackURL        string  `json:"callbackURL"`
		ErrorCallbackURL   string  `json:"errorCallbackURL"`
		NewUserCallbackURL string  `json:"newUserCallbackURL"`
		DisableRedirect    bool    `json:"disableRedirect"`
	}](v)
	if err != nil {
		return nil, err
	}
	if in.Provider == nil {
		return nil, need("provider", "")
	}
	provider, ok := s.providers[*in.Provider]
	switch {
	case !ok:
		return nil, errProvider
	case in.CallbackURL != "" && !s.trusted(in.CallbackURL):
		return nil, errCallbackURL
	case in.ErrorCallbackURL != "" && !s.trusted(in.ErrorCallbackURL):
		return nil, errErrorURL
	case in.NewUserCallbackURL != "" && !s.trusted(in.NewUserCallbackURL):
		return nil, errNewUserURL
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	state := base64.RawURLEncoding.EncodeToString(raw)
	verifier := oauth2.GenerateVerifier()
	err = s.states.Begin(v.Context(), state, sessions.State{
		Provider: *in.Provider, Verifier: verifier, CallbackURL: in.CallbackURL,
		ErrorCallbackURL: in.ErrorCallbackURL, NewUserURL: in.NewUserCallbackURL,
	})
	if err != nil {
		return nil, err
	}
	http.SetCookie(v.w, s.stateCookie(s.signState(state), int(sessions.StateLifetime.Seconds())))
	where := provider.authorize(state, verifier)
	if !in.DisableRedirect {
		v.w.Header().Set("Location", where)
	}
	return map[string]any{"url": where, "redirect": !in.DisableRedirect}, nil
}

func (s *Server) stateCookie(value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: s.stateCookieName(), Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: s.sessions.Secure, SameSite: http.SameSiteLaxMode,
	}
}

// signState binds a state to the browser that began with it.
func (s *Server) signState(state string) string {
	mac := hmac.New(sha256.New, s.sessions.Secret)
	mac.Write([]byte("state " + state))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// trusted tells an address of ours, to which a browser may be sent on, from
// others: a path, or an address of the same origin.
func (s *Server) trusted(address string) bool {
	u, err := url.Parse(address)                                                          // which refuses control characters that are not escaped
	if err != nil || u.User != nil || len(address) > maxAddress || input.URLHasToken(u) { // it is kept for a while
		return false
	}
	if strings.HasPrefix(u.Path, "//") || strings.ContainsFunc(u.Path, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) {
		return false // what it says once it is decoded
	}
	if u.Scheme == "" && u.Host == "" {
		return strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//")
	}
	return input.Origin(u) == s.origin
}

// callback ends a sign-in. Whatever happens, the browser is sent somewhere.
func (s *Server) callback(v *visit) (any, error) {
	name := v.PathValue("provider")
	state, err := s.takeState(v, name)
	http.SetCookie(v.w, s.stateCookie("", -1))
	if err != nil && v.URL.Query().Get("error") == errRedirect.Error() {
		return s.sendBack(v, sessions.State{}, errRedirect, "") // at the registered address, for which the browser has no cookie
	}
	if err != nil {
		return s.sendBack(v, state, err, "")
	}
	q := v.URL.Query()
	if q.Get("error") != "" {
		return s.sendBack(v, state, errors.New(plain(q.Get("error"))), plain(q.Get("error_description")))
	}
	who, token, err := s.providers[name].exchange(v.Context(), q.Get("code"), state.Verifier)
	if err != nil {
		return s.sendBack(v, state, err, "")
	}
	made, err := s.admit(v, name, who)
	if err != nil {
		return s.sendBack(v, state, err, "")
	}
	if err := s.keepToken(v.Context(), v.session.User, name, token); err != nil {
		s.log.WarnContext(v.Context(), "keep the provider's token", "err", err)
	}
	where := state.CallbackURL
	if made && state.NewUserURL != "" {
		where = state.NewUserURL
	}
	if where == "" {
		where = "/"
	}
	http.Redirect(v.w, v.Request, where, http.StatusFound)
	return nil, errAnswered
}

// callbackForm leads a provider that posts its answer to the same place.
func (s *Server) callbackForm(v *visit) (any, error) {
	if err := v.ParseForm(); err != nil {
		return nil, errBadJSON
	}
	answer := v.PostForm
	maps.Copy(answer, v.URL.Query()) // a state may be there, and counts more
	http.Redirect(v.w, v.Request, v.URL.Path+"?"+answer.Encode(), http.StatusFound)
	return nil, errAnswered
}

// Errors before there is anything to go by.
var (
	errState         = errors.New("state_mismatch")
	errNoState       = errors.New("state_not_found")
	errNoOAuthClient = errors.New("oauth_provider_not_found")
)

// takeState takes up the sign-in that the browser comes back from. Where that
// cannot be, the state says where its errors go, if anybody knows; a browser that
// has not begun the sign-in does not use it up.
func (s *Server) takeState(v *visit, provider string) (state sessions.State, err error) {
	random := v.URL.Query().Get("state")
	refusal := errState
	cookie, _ := v.Cookie(s.stateCookieName())
	switch {
	case s.providers[provider] == nil:
		refusal = errNoOAuthClient
	case random == "":
		return state, errNoState
	case cookie != nil && hmac.Equal([]byte(cookie.Value), []byte(s.signState(random))):
		state, ok, err := s.states.Take(v.Context(), random)
		if err == nil && (!ok || state.Provider != provider) {
			err = errState
		}
		return state, err
	}
	state.ErrorCallbackURL, err = s.states.ErrorURL(v.Context(), random)
	return state, orElse(err, refusal)
}

// plain keeps of a provider's words what is safe in an address of ours.
func plain(s string) string {
	s = input.Redact(strings.ToValidUTF8(s, ""))
	if runes := []rune(s); len(runes) > 200 {
		s = string(runes[:200])
	}
	return s
}

// sendBack tells the browser why there is no session. What is not one of the
// known reasons is called internal. Each is logged, and our own page, if there is no
// other, is told the request under which that was done, and what leads on from there.
func (s *Server) sendBack(v *visit, state sessions.State, err error, description string) (any, error) {
	level := slog.LevelWarn
	if description != "" { // the provider's word, such as that the person declined
		level = slog.LevelInfo
	}
	s.log.Log(v.Context(), level, "sign-in came to nothing", "err", err)
	reason := err.Error()
	for _, known := range []error{errInvalidCode, errNoUserInfo, errNoEmail, errNotLinked, errRedirect, errScope} {
		if errors.Is(err, known) {
			reason = known.Error()
		}
	}
	if strings.ContainsAny(reason, " :") {
		reason = "internal_server_error"
	}
	q := url.Values{"error": {reason}}
	if description != "" {
		q.Set("error_description", description)
	}
	where := state.ErrorCallbackURL
	if where == "" {
		where = s.origin + prefix + "/error"
		q.Set("request_id", middleware.RequestID(v.Context()))
		if name := v.PathValue("provider"); s.providers[name] != nil {
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
	http.Redirect(v.w, v.Request, where, http.StatusFound)
	return nil, errAnswered
}

// keepToken seals the provider's token away.
func (s *Server) keepToken(ctx context.Context, user events.ID, provider string, token *oauth2.Token) error {
	return s.tokens.Put(ctx, user, provider, config.Secret(token.AccessToken))
}
