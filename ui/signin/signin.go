// Package signin has the pages to sign in and out.
package signin

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/{$}", Public: true, Show: root},
		{Method: http.MethodGet, Path: "/sign-in", Public: true, Show: show},
		{Method: http.MethodGet, Path: "/sign-in/{provider}", Public: true, Show: begin},
		{Method: http.MethodPost, Path: "/sign-in", Public: true, Do: password, Show: show},
		{Method: http.MethodPost, Path: "/sign-out", Public: true, Do: signOut},
		{Method: http.MethodPost, Path: "/theme", Public: true, Do: theme, Show: page.ShowTheme},
	}
}

func root(*page.Visit) (page.Page, error) { return page.Page{}, page.Redirect("/w") }

func show(v *page.Visit) (page.Page, error) {
	ways, err := v.API.SignInMethods(v.Context())
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{Title: "Sign in", Bare: true, Main: view(v, ways)}, nil
}

// begin redirects to the provider. It is a link because the Content-Security-Policy restricts forms
// to the app.
func begin(v *page.Visit) (page.Page, error) {
	to, err := v.API.SignIn(v.Context(), v.PathValue("provider"), To(v), page.SignInPath(To(v)))
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{}, page.Redirect(to.String())
}

func password(v *page.Visit) (page.Notice, error) {
	err := v.API.SignInPassword(v.Context(), v.PostFormValue("email"), v.PostFormValue("password"))
	if r := client.AsRefused(err); r != nil && r.Status == http.StatusUnauthorized {
		return page.Notice{}, &client.Refused{Status: http.StatusConflict, Message: "Wrong email address or password."}
	}
	return page.Notice{To: To(v)}, err
}

func signOut(v *page.Visit) (page.Notice, error) {
	return page.Notice{To: "/sign-in", Text: "You are signed out."}, v.API.SignOut(v.Context())
}

func theme(v *page.Visit) (page.Notice, error) {
	v.SetTheme(v.PostFormValue("theme"))
	if v.FromHTMX() {
		return page.Notice{}, nil
	}
	return page.Notice{To: page.Local(v.PostFormValue("to"))}, nil
}

// To returns the path of the app that the person wanted before they had to sign in.
func To(v *page.Visit) string { return page.Local(v.Query("to")) }

// A reason says why a sign-in at a provider failed, and what to do.
type reason struct{ code, title, text string }

// reasons are those that the service gives. Other text in an address is not shown, because
// anybody can write one.
var reasons = []reason{
	{"access_denied", "You cancelled the sign-in at the code host.", "You can try again."},
	{mismatch, "The redirect_uri is not associated with this application.",
		"This service’s address does not match the registered callback."},
	{"state_mismatch", "This sign-in was started in another window, has expired, or was already used.", "Start again."},
	{"state_not_found", "The code host’s answer was incomplete.", "Start again."},
	{"invalid_code", "The code host did not confirm the sign-in.", "Try again. If it keeps failing, contact an operator."},
	{"unable_to_get_user_info", "The code host did not say who you are.", "It may be down. Try again in a few minutes."},
	{"email_not_found", "Your account has no verified email address.", "Verify one at the code host, then sign in again."},
	{"invalid_scope", "The code host granted other permissions than requested.", "They have not been used. Contact an operator."},
	{"account_not_linked", "This account or its email address belongs to another person here.", "Sign in the way you did before."},
	{"oauth_provider_not_found", "There is no such sign-in provider.", "Choose one below."},
}

const mismatch = "redirect_uri_mismatch"

// why returns the reason in an address; ok is false if it has none.
func why(v *page.Visit) (r reason, ok bool) {
	code := v.Query("error")
	if code == "" {
		return reason{}, false
	}
	for _, r := range reasons {
		if r.code == code {
			return r, true
		}
	}
	return reason{"unknown_error", "The code host did not sign you in.", "Try again. If it keeps failing, contact an operator."}, true
}

// insecure returns the scheme of an address that has to be https, with the rest of it; a
// machine’s own address may be http.
func insecure(address string) (scheme, rest string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback() {
		return "", address
	}
	return u.Scheme, strings.TrimPrefix(address, u.Scheme)
}

func providerPath(v *page.Visit, id string) string {
	return "/sign-in/" + url.PathEscape(id) + "?to=" + url.QueryEscape(To(v))
}
