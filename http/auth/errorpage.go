package auth

import (
	"html/template"

	"svc/http/middleware"
	"svc/input"
)

// reasons has, for each error code, why a sign-in failed and what to do.
var reasons = map[string][2]string{
	"access_denied":   {"You did not allow the sign-in.", "Nothing has changed. You can try again."},
	"state_mismatch":  {"This sign-in was started in another window or too long ago, or was already used.", "Start again."},
	"state_not_found": {"The provider returned no state.", "Start again."},
	"invalid_code": {"The provider did not accept the sign-in or could not be reached.",
		"Start again. If it happens again, give an operator the request id below."},
	"unable_to_get_user_info": {"The provider did not return your profile.", "It may be down. Try again in a few minutes."},
	"email_not_found":         {"Your account has no verified e-mail address.", "Verify an address with the provider, then sign in again."},
	"invalid_scope": {"The provider granted more permissions than requested.",
		"They were not used. Give an operator the request id below."},
	"account_not_linked":       {"Your account or its address belongs to another person here.", "Sign in the same way as before."},
	"oauth_provider_not_found": {"There is no such provider.", "Start again."},
	"rate_limited":             {"You have signed in too often today.", "Sign in again after midnight UTC."},
	"redirect_uri_mismatch": {"The redirect_uri is not associated with this application.",
		"The address of this service does not match the callback registered with the provider. " +
			"An operator has to set AUTH_URL to the registered address, or register this one."},
}

var errorPage = template.Must(template.New("error").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign-in failed</title>
<link rel="stylesheet" href="/api/auth/error.css">
<main>
<h1>Sign-in failed</h1>
<p><strong>{{.What}}</strong></p>
<p>{{.Do}}</p>
{{with .Description}}<p>The provider says: {{.}}</p>{{end}}
{{with .Sent}}<p>Sent to the provider as redirect_uri: <code>{{.}}</code></p>{{end}}
<p><a href="{{.Back}}">Try again</a></p>
<p><small>Reason {{.Code}} · request {{.Request}}</small></p>
</main>
</html>
`))

const errorStyle = `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;margin:0;` +
	`display:grid;place-items:center;min-height:100vh}
main{max-width:34rem;padding:2rem}small{opacity:.7}
`

// errorPage explains to a person why the sign-in failed.
func (s *Server) errorPage(r *request) (any, error) {
	code := cleanText(r.URL.Query().Get("error"))
	text, ok := reasons[code]
	if !ok {
		text = [2]string{"Something went wrong.", "Start again. If it happens again, give an operator the request id below."}
	}
	h := r.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	err := errorPage.Execute(r.w, map[string]string{
		"What": text[0], "Do": text[1], "Code": code, "Sent": s.sentRedirect(r, code), "Back": s.retryAddress(r),
		"Description": cleanText(r.URL.Query().Get("error_description")), "Request": failedRequest(r),
	})
	if err != nil {
		s.Log.WarnContext(r.Context(), "write error page", "err", err)
	}
	return nil, errAnswered
}

// sentRedirect returns the redirect_uri that was sent to the provider if the provider rejected it, "" for
// other errors.
func (s *Server) sentRedirect(r *request, code string) string {
	provider := s.Providers[r.URL.Query().Get("provider")]
	if provider == nil || code != errRedirect.Error() {
		return ""
	}
	return provider.oauth.RedirectURL
}

// retryAddress returns the page that the person wanted, which asks them to sign in again. It is / if
// there is none, or it is not on this site.
func (s *Server) retryAddress(r *request) string {
	if address := r.URL.Query().Get("callbackURL"); address != "" && s.isOwnAddress(address) {
		return address
	}
	return "/"
}

// failedRequest returns the id of the request that failed, whose log lines have the reason, or this
// request's own if the query has no valid id.
func failedRequest(r *request) string {
	id := r.URL.Query().Get("request_id")
	if !input.RequestID(id) {
		return middleware.RequestID(r.Context())
	}
	return id
}

func (s *Server) errorCSS(r *request) (any, error) {
	r.w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = r.w.Write([]byte(errorStyle))
	return nil, errAnswered
}
