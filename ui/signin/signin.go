// Package signin contains the page to sign in, and the routes that sign out and set the theme.
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
		{Method: http.MethodGet, Path: "/{$}", Public: true, Show: redirectToWorkspaces},
		{Method: http.MethodGet, Path: "/sign-in", Public: true, Show: show},
		{Method: http.MethodGet, Path: "/sign-in/{provider}", Public: true, Show: startSignIn},
		{Method: http.MethodPost, Path: "/sign-in", Public: true, Do: signInWithPassword, Show: show},
		{Method: http.MethodPost, Path: "/sign-out", Public: true, Do: signOut},
		{Method: http.MethodPost, Path: "/theme", Public: true, Do: setTheme, Show: page.ShowTheme},
	}
}

func redirectToWorkspaces(*page.Visit) (page.Page, error) { return page.Page{}, page.Redirect("/w") }

func show(v *page.Visit) (page.Page, error) {
	methods, err := v.API.SignInMethods(v.Context())
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{Title: "Sign in", Bare: true, Main: view(v, methods)}, nil
}

// startSignIn redirects to the provider. It is a GET because the Content-Security-Policy keeps
// forms from leading out of the app.
func startSignIn(v *page.Visit) (page.Page, error) {
	to, err := v.API.SignIn(v.Context(), v.PathValue("provider"), returnPath(v), page.SignInPath(returnPath(v)))
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{}, page.Redirect(to.String())
}

// refusedPassword is a refused form. It never has the password.
type refusedPassword struct{ email, refused string }

func signInWithPassword(v *page.Visit) (page.Notice, error) {
	err := v.API.SignInPassword(v.Context(), v.PostFormValue("email"), v.PostFormValue("password"))
	if r := client.AsRefused(err); r != nil && r.Status < http.StatusInternalServerError {
		f := refusedPassword{email: v.PostFormValue("email"), refused: page.Sentence(r)}
		if r.Status == http.StatusUnauthorized {
			f.refused = "Wrong email address or password."
		}
		v.Result = f
		return page.Notice{}, page.InlineError{Err: &client.Refused{Status: http.StatusConflict, Message: f.refused}}
	}
	return page.Notice{To: returnPath(v)}, err
}

func signOut(v *page.Visit) (page.Notice, error) {
	return page.Notice{To: "/sign-in", Text: "You are signed out."}, v.API.SignOut(v.Context())
}

func setTheme(v *page.Visit) (page.Notice, error) {
	v.SetTheme(v.PostFormValue("theme"))
	if v.FromHTMX() {
		return page.Notice{}, nil
	}
	return page.Notice{To: page.Local(v.PostFormValue("to"))}, nil
}

// returnPath returns the path of the app to open after the sign-in.
func returnPath(v *page.Visit) string { return page.Local(v.Query("to")) }

// A reason describes why a sign-in at a provider failed, and what to do.
type reason struct{ code, title, text string }

// reasons are the error codes of the service. Other text in an address is not shown, because
// anybody can make such an address.
var reasons = []reason{
	{"access_denied", "You cancelled the sign-in at the code host.", "You can try again."},
	{redirectMismatch, "The redirect_uri is not associated with this application.",
		"This service’s address does not match the registered callback."},
	{"state_mismatch", "This sign-in was started in another window, has expired, or was already used.", "Start again."},
	{"state_not_found", "The code host’s answer was incomplete.", "Start again."},
	{"invalid_code", "The code host did not confirm the sign-in.", "Try again. If it keeps failing, contact an operator."},
	{"unable_to_get_user_info", "The code host did not say who you are.", "It may be down. Try again in a few minutes."},
	{"email_not_found", "Your account has no verified email address.", "Verify one at the code host, then sign in again."},
	{"invalid_scope", "The code host granted other permissions than requested.", "They have not been used. Contact an operator."},
	{"account_not_linked", "This account or its email address belongs to another person here.", "Sign in the way you did before."},
	{"oauth_provider_not_found", "There is no such sign-in provider.", "Choose one below."},
	{"rate_limited", "You have signed in too often today.", "You can sign in again after midnight UTC."},
}

const redirectMismatch = "redirect_uri_mismatch"

// failureReason returns the reason in the page's address; ok is false if it has none.
func failureReason(v *page.Visit) (r reason, ok bool) {
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

// splitInsecure splits an http address into its scheme and the rest, to highlight the scheme.
// The scheme is "" if the address is https or on the local machine.
func splitInsecure(address string) (scheme, rest string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback() {
		return "", address
	}
	return u.Scheme, strings.TrimPrefix(address, u.Scheme)
}

func providerPath(v *page.Visit, id string) string {
	return "/sign-in/" + url.PathEscape(id) + "?to=" + url.QueryEscape(returnPath(v))
}
