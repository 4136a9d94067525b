// Package signin is where people come in and go out.
package signin

import (
	"net/http"
	"net/url"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/{$}", Open: true, Show: root},
		{Method: http.MethodGet, Path: "/sign-in", Open: true, Show: show},
		{Method: http.MethodGet, Path: "/sign-in/{provider}", Open: true, Show: begin},
		{Method: http.MethodPost, Path: "/sign-in", Open: true, Do: password, Show: show},
		{Method: http.MethodPost, Path: "/sign-out", Open: true, Do: signOut},
		{Method: http.MethodPost, Path: "/theme", Open: true, Do: theme, Show: page.ShowTheme},
	}
}

func root(*page.Visit) (page.Page, error) { return page.Page{}, page.Redirect("/w") }

func show(v *page.Visit) (page.Page, error) {
	ways, err := v.API.Ways(v.Context())
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{Title: "Sign in", Bare: true, Main: view(v, ways)}, nil
}

// begin leads to the provider. It is a link, because a form may only lead to the app.
func begin(v *page.Visit) (page.Page, error) {
	to, err := v.API.SignIn(v.Context(), v.PathValue("provider"), To(v), page.SignInPath(To(v)))
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{}, page.Redirect(to.String())
}

func password(v *page.Visit) (page.Notice, error) {
	err := v.API.SignInPassword(v.Context(), v.PostFormValue("email"), v.PostFormValue("password"))
	if r := client.As(err); r != nil && r.Status == http.StatusUnauthorized {
		return page.Notice{}, &client.Refused{Status: http.StatusConflict, Message: "The address or the password is wrong."}
	}
	return page.Notice{To: To(v)}, err
}

func signOut(v *page.Visit) (page.Notice, error) {
	return page.Notice{To: "/sign-in", Text: "You are signed out."}, v.API.SignOut(v.Context())
}

func theme(v *page.Visit) (page.Notice, error) {
	v.SetTheme(v.PostFormValue("theme"))
	if v.Swapped() {
		return page.Notice{}, nil
	}
	return page.Notice{To: page.Local(v.PostFormValue("to"))}, nil
}

// To returns where somebody was to go before they had to sign in: a path of the app.
func To(v *page.Visit) string { return page.Local(v.Query("to")) }

// reason says why somebody comes back from a provider without being signed in.
func reason(v *page.Visit) string {
	switch code := v.Query("error"); {
	case code == "":
		return ""
	case code == "access_denied":
		return "You did not let the code host tell who you are."
	case strings.Contains(code, "redirect_uri"):
		return "The redirect_uri is not associated with this application."
	}
	if text := v.Query("error_description"); text != "" {
		return text
	}
	return "The sign-in did not succeed. Nothing was changed."
}

// code is the word for a refusal, as far as one is as long as a word.
func code(v *page.Visit) string {
	word := []rune(v.Query("error"))
	return string(word[:min(len(word), 60)])
}

func providerPath(v *page.Visit, id string) string {
	return "/sign-in/" + url.PathEscape(id) + "?to=" + url.QueryEscape(To(v))
}
