package auth

import (
	"html/template"

	"svc/http/middleware"
	"svc/input"
)

// reasons says in plain words why a sign-in came to nothing, and what to do.
var reasons = map[string][2]string{
	"access_denied":            {"You did not allow the sign-in.", "Nothing has changed. You can try again."},
	"state_mismatch":           {"This sign-in was begun in another window, too long ago, or has been used already.", "Begin again."},
	"state_not_found":          {"The provider sent no state back.", "Begin again."},
	"invalid_code":             {"The provider did not accept the sign-in, or could not be reached.", "Begin again. If it happens again, tell an operator the request id below."},
	"unable_to_get_user_info":  {"The provider did not say who you are.", "It may be down. Try again in a few minutes."},
	"email_not_found":          {"Your account has no verified e-mail address.", "Verify an address with the provider, then sign in again."},
	"invalid_scope":            {"The provider allowed more than was asked for.", "What it allowed has not been used. Tell an operator the request id below."},
	"account_not_linked":       {"Your account or its address belongs to another person here.", "Sign in the way you did before."},
	"oauth_provider_not_found": {"There is no such provider.", "Begin again."},
	"redirect_uri_mismatch": {"The redirect_uri is not associated with this application.",
		"The address of this service does not match the callback that is registered with the provider. An operator has to set AUTH_URL to the registered address, or register this one."},
}

var errorPage = template.Must(template.New("error").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign-in came to nothing</title>
<link rel="stylesheet" href="/api/auth/error.css">
<main>
<h1>Sign-in came to nothing</h1>
<p><strong>{{.What}}</strong></p>
<p>{{.Do}}</p>
{{with .Description}}<p>The provider says: {{.}}</p>{{end}}
{{with .Sent}}<p>Sent to the provider as redirect_uri: <code>{{.}}</code></p>{{end}}
<p><a href="{{.Back}}">Try again</a></p>
<p><small>Reason {{.Code}} · request {{.Request}}</small></p>
</main>
</html>
`))

const errorStyle = `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;margin:0;display:grid;place-items:center;min-height:100vh}
main{max-width:34rem;padding:2rem}small{opacity:.7}
`

// errorPage shows a person why they are not signed in.
func (s *Server) errorPage(v *visit) (any, error) {
	code := plain(v.URL.Query().Get("error"))
	text, ok := reasons[code]
	if !ok {
		text = [2]string{"Something went wrong.", "Begin again. If it happens again, tell an operator the request id below."}
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	err := errorPage.Execute(v.w, map[string]string{
		"What": text[0], "Do": text[1], "Code": code, "Sent": s.sentRedirect(v, code), "Back": s.wayBack(v),
		"Description": plain(v.URL.Query().Get("error_description")), "Request": failedRequest(v),
	})
	if err != nil {
		s.log.WarnContext(v.Context(), "write error page", "err", err)
	}
	return nil, errAnswered
}

// sentRedirect is the address that the provider was asked to send the browser to, where
// that was the trouble.
func (s *Server) sentRedirect(v *visit, code string) string {
	provider := s.providers[v.URL.Query().Get("provider")]
	if provider == nil || code != errRedirect.Error() {
		return ""
	}
	return provider.oauth.RedirectURL
}

// wayBack is where the person wanted to go when they began: a page of ours, which asks
// them to sign in again and then lets them in.
func (s *Server) wayBack(v *visit) string {
	if address := v.URL.Query().Get("callbackURL"); address != "" && s.trusted(address) {
		return address
	}
	return "/"
}

// failedRequest is the request that led here, whose log lines say why. Whoever came
// by another way, or with what is no id, is told of this one.
func failedRequest(v *visit) string {
	id := v.URL.Query().Get("request_id")
	if !input.RequestID(id) {
		return middleware.RequestID(v.Context())
	}
	return id
}

func (s *Server) errorCSS(v *visit) (any, error) {
	v.w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = v.w.Write([]byte(errorStyle))
	return nil, errAnswered
}
