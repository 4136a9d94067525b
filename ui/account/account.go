// Package account is the page of the signed-in person: invitations and sessions.
package account

import (
	"context"
	"net/http"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/account", Show: show},
		{Method: http.MethodPost, Path: "/account/invitations/{id}/accept", Do: accept, Show: show, Back: accountPath},
		{Method: http.MethodPost, Path: "/account/invitations/{id}/reject", Do: reject, Show: show, Back: accountPath},
		{Method: http.MethodPost, Path: "/account/sessions/end", Do: endSession, Show: show, Back: accountPath},
		{Method: http.MethodPost, Path: "/account/sessions/end-others", Do: endOtherSessions, Show: show, Back: accountPath, Ask: askEndOthers},
	}
}

// pageData is the content of the page.
type pageData struct {
	Invitations  []client.OwnInvitation
	Devices      []client.Device
	SignInTooOld bool // the sign-in is too long ago to list sessions
}

func show(v *page.Visit) (page.Page, error) {
	var d pageData
	err := v.Load(func(ctx context.Context) (err error) {
		d.Invitations, err = v.API.OwnInvitations(ctx)
		return err
	}, func(ctx context.Context) (err error) {
		d.Devices, err = v.API.Devices(ctx)
		if r := client.AsRefused(err); r != nil && r.Status == http.StatusForbidden {
			d.SignInTooOld, err = true, nil
		}
		return err
	})
	return page.Page{Title: "Account", Main: view(v, d)}, err
}

// pendingInvitations returns the invitations that can be answered.
func (d pageData) pendingInvitations() (list []client.OwnInvitation) {
	for _, i := range d.Invitations {
		if i.Status == "pending" {
			list = append(list, i)
		}
	}
	return list
}

const accountPath = "/account"

func accept(v *page.Visit) (page.Notice, error) {
	to := page.Local(v.PostFormValue("to"))
	if i, err := v.API.OwnInvitation(v.Context(), v.PathValue("id")); err == nil && to == "/w" {
		to = page.Path(i.OrganizationSlug, "dashboard")
	}
	err := v.API.AnswerInvitation(v.Context(), v.PathValue("id"), true)
	return page.Notice{Text: "Welcome! You are now a member.", To: to}, err
}

func reject(v *page.Visit) (page.Notice, error) {
	return page.Notice{Text: "Invitation declined.", To: accountPath}, v.API.AnswerInvitation(v.Context(), v.PathValue("id"), false)
}

func endSession(v *page.Visit) (page.Notice, error) {
	return page.Notice{Text: "Session ended.", To: accountPath}, v.API.EndDevice(v.Context(), v.PostFormValue("token"))
}

var endOthersQuestion = page.Question{
	Title: "Sign out everywhere else?", Text: "Other browsers have to sign in again.",
	Yes: "Sign out everywhere else", No: "Keep them signed in",
}

func askEndOthers(*page.Visit) (page.Question, error) { return endOthersQuestion, nil }

func endOtherSessions(v *page.Visit) (page.Notice, error) {
	return page.Notice{Text: "You are signed out everywhere else.", To: accountPath}, v.API.EndOtherDevices(v.Context())
}

// browserName shortens the User-Agent of a session: "Firefox on Linux".
func browserName(agent string) string {
	if agent == "" {
		return "Unknown"
	}
	program, _, system := kit.UserAgent(agent)
	if program == "" {
		program = "A program"
	}
	if system != "" {
		program += " on " + system
	}
	return program
}
