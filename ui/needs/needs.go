// Package needs is the page Needs You: decisions that wait for a person, and their
// answers.
package needs

import (
	"net/http"
	"strconv"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/w/{workspace}/needs", Show: show},
		{Method: http.MethodGet, Path: "/w/{workspace}/needs/badge", Show: badge},
		{Method: http.MethodPost, Path: "/w/{workspace}/needs/{id}/answer", Do: answer, Show: show, Back: "needs"},
	}
}

const perPage = 50

func show(v *page.Visit) (page.Page, error) {
	offset, _ := strconv.ParseInt(v.Query("offset"), 10, 64) // what is no number is the first page
	inbox, err := client.Read[client.Inbox](v.API.ListInbox(v.Context(), &client.ListInboxParams{
		Limit: client.Optional(int64(perPage)), Offset: client.Optional(max(offset, 0)),
	}))
	title := "Needs You"
	if n := inbox.Head.Answerable; n > 0 {
		title = "(" + strconv.FormatInt(n, 10) + ") Needs You"
	}
	return page.Page{Title: title, Place: "needs", Main: view(v, inbox)}, err
}

// badge is the number beside the entry of the navigation: what the person can answer.
func badge(v *page.Visit) (page.Page, error) {
	inbox, err := client.Read[client.Inbox](v.API.ListInbox(v.Context(), &client.ListInboxParams{Limit: client.Optional(int64(1))}))
	return page.Page{Part: badgeView(inbox.Head.Answerable)}, err
}

// answer sends an answer, with the commit that the person saw: what has been pushed
// since is refused.
func answer(v *page.Visit) (page.Notice, error) {
	err := client.Done(v.API.AnswerDecision(v.Context(), v.PathValue("id"), nil, client.NewAnswerBody{
		Action:       client.NewAnswerBodyAction(v.PostFormValue("action")),
		ExpectedHead: client.Optional(v.PostFormValue("head")),
		Note:         client.Optional(strings.TrimSpace(v.PostFormValue("note"))),
	}))
	return page.Notice{Text: "Answered: " + kit.Words(v.PostFormValue("action")) + "."}, err
}

// keys are those that give answers: of each kind of decision the same for the same. A is
// the one that lets the run go on.
var keys = map[client.InboxActionId]string{
	client.InboxActionIdApproveAndMerge: "a", client.InboxActionIdAllowOnce: "a", client.InboxActionIdConfirm: "a",
	client.InboxActionIdRequestChanges: "c", client.InboxActionIdCorrect: "c",
	client.InboxActionIdReject: "r", client.InboxActionIdDeny: "d",
}

// noted tells whether an answer asks for a text first.
func noted(a client.InboxAction) bool {
	return a.Id == client.InboxActionIdCorrect || a.Id == client.InboxActionIdRequestChanges
}

// reason says why the person cannot give any of the answers, "" if they can give one.
func reason(v *page.Visit, actions []client.InboxAction) string {
	for _, a := range actions {
		if a.Allowed {
			return ""
		}
	}
	for _, a := range actions {
		if a.DisabledReason != nil && *a.DisabledReason == client.RoleRequired {
			return "Needs the Owner or Maintainer role. You are " + kit.An(kit.Role(string(v.Workspace.You.Role))) + "."
		}
	}
	return "Needs approve-loops, which an Owner or Maintainer can give you."
}
