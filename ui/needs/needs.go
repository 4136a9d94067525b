// Package needs is the page Needs You: decisions that wait for a person, and their
// answers.
package needs

import (
	"context"
	"encoding/json"
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

// data is what the page shows.
type data struct {
	client.Inbox
	Facts  map[string][]string // by run: what it found before it asked about a fact
	People []client.Member     // who may answer what the person may not; nil if there is nothing
}

// The most that the page asks for beyond the decisions themselves.
const (
	maxFactRuns = 10
	maxPeople   = 100
)

func show(v *page.Visit) (page.Page, error) {
	offset := v.QueryNumber("offset")
	inbox, err := client.Read[client.Inbox](v.API.ListInbox(v.Context(), &client.ListInboxParams{
		Limit: client.Optional(int64(perPage)), Offset: client.Optional(offset),
	}))
	title := "Needs You"
	if n := inbox.Head.Answerable; n > 0 {
		title = "(" + strconv.FormatInt(n, 10) + ") Needs You"
	}
	d := data{Inbox: inbox, Facts: map[string][]string{}}
	if err == nil {
		err = d.load(v)
	}
	return page.Page{Title: title, NavEntry: "needs", Main: view(v, d)}, err
}

// load asks for what the decisions of the page are about, and who may answer them.
func (d *data) load(v *page.Visit) error {
	var asks []func(context.Context) error
	var facts [maxFactRuns][]string
	var runs []string
	refused := false
	for _, item := range d.Items {
		refused = refused || reason(v, item.Actions) != ""
		if i := len(runs); item.KindId == client.InboxItemKindIdFactReview && i < maxFactRuns {
			runs = append(runs, item.RunId)
			asks = append(asks, func(ctx context.Context) (err error) {
				facts[i], err = factsOf(ctx, v, item.RunId)
				return err
			})
		}
	}
	if refused {
		asks = append(asks, func(ctx context.Context) error {
			list, err := client.Read[client.MemberList](v.API.ListMembers(ctx, &client.ListMembersParams{Limit: client.Optional(int64(maxPeople))}))
			d.People = list.Items
			return err
		})
	}
	err := v.Load(asks...)
	for i, run := range runs {
		d.Facts[run] = facts[i]
	}
	return err
}

// factsOf returns the facts that a run recorded last.
func factsOf(ctx context.Context, v *page.Visit, run string) ([]string, error) {
	list, err := client.Read[client.RunEventsBody](v.API.ListRunEvents(ctx, run, &client.ListRunEventsParams{Order: new(client.Desc)}))
	for _, e := range list.Items {
		if e.Kind != "run.facts_recorded" {
			continue
		}
		var said struct{ Facts []string }
		if text, err := json.Marshal(e.Data); err == nil && json.Unmarshal(text, &said) == nil {
			return said.Facts, nil
		}
	}
	return nil, err
}

// labelled splits a fact such as "The issue says: nothing." into its source and the rest.
func labelled(fact string) (source, text string) {
	const longest = 24
	source, text, ok := strings.Cut(fact, ": ")
	if !ok || len(source) > longest {
		return "", fact
	}
	return source, text
}

// question is what is asked, with the title of what would be merged.
func question(item client.InboxItem) string {
	if item.KindId != client.InboxItemKindIdMergeApproval || item.Subject.PrNumber == nil || item.Subject.IssueTitle == "" {
		return item.Question
	}
	number := "#" + strconv.FormatInt(*item.Subject.PrNumber, 10)
	return strings.Replace(item.Question, number+" ", number+" “"+item.Subject.IssueTitle+"” ", 1)
}

// whoCan names up to three people who may answer a kind of decision, Owners and Maintainers
// first: "Ada, Ben or Mia".
func (d data) whoCan(kind client.InboxItemKindId) string {
	var names []string
	for _, leads := range []bool{true, false} {
		for _, m := range d.People {
			if lead := m.Role == client.MemberRoleOwner || m.Role == client.MemberRoleMaintainer; lead != leads || !mayAnswer(m, kind, lead) {
				continue
			}
			first, _, _ := strings.Cut(kit.Called(m.Name, m.Email), " ")
			names = append(names, first)
		}
	}
	const most = 3
	switch names = names[:min(len(names), most)]; len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func mayAnswer(m client.Member, kind client.InboxItemKindId, lead bool) bool {
	switch kind {
	case client.InboxItemKindIdMergeApproval:
		return m.CanApproveLoops
	case client.InboxItemKindIdProtectedPathAllowOnce:
		return lead && m.CanApproveLoops
	}
	return lead
}

// badge is the number beside the entry of the navigation: what the person can answer.
func badge(v *page.Visit) (page.Page, error) {
	inbox, err := client.Read[client.Inbox](v.API.ListInbox(v.Context(), &client.ListInboxParams{Limit: client.Optional(int64(1))}))
	return page.Page{Part: badgeView(inbox.Head.Answerable)}, err
}

// unsent is an answer that was refused: the page keeps its text.
type unsent struct {
	decision, action, note string
	refused                string // why
}

// unsentOf returns the answer to a decision that was refused just now; zero if none was.
func unsentOf(v *page.Visit, decision string, action client.InboxActionId) unsent {
	if u, ok := v.Done.(unsent); ok && u.decision == decision && u.action == string(action) {
		return u
	}
	return unsent{}
}

// textNotSent returns the text of an answer that was refused just now, if none of the decisions of
// the page takes it any more; else "".
func textNotSent(v *page.Visit, items []client.InboxItem) string {
	u, ok := v.Done.(unsent)
	if !ok {
		return ""
	}
	for _, item := range items {
		for _, a := range item.Actions {
			if item.Id == u.decision && string(a.Id) == u.action && a.Allowed && noted(a) {
				return ""
			}
		}
	}
	return u.note
}

// answer sends an answer, with the commit that the person saw: what has been pushed
// since is refused.
func answer(v *page.Visit) (page.Notice, error) {
	sent := unsent{decision: v.PathValue("id"), action: v.PostFormValue("action"), note: strings.TrimSpace(v.PostFormValue("note"))}
	err := client.Done(v.API.AnswerDecision(v.Context(), sent.decision, nil, client.NewAnswerBody{
		Action:       client.NewAnswerBodyAction(sent.action),
		ExpectedHead: client.Optional(v.PostFormValue("head")),
		Note:         client.Optional(sent.note),
	}))
	if r := client.AsRefused(err); r != nil {
		sent.refused = page.Sentence(r)
		v.Done = sent
	}
	return page.Notice{Text: "Answered: " + kit.Words(sent.action) + "."}, err
}

// keys are those that give answers: of each kind of decision the same for the same. A is
// the one that lets the run go on.
var keys = map[client.InboxActionId]string{
	client.InboxActionIdApproveAndMerge: "a", client.InboxActionIdAllowOnce: "a", client.InboxActionIdConfirm: "a",
	client.InboxActionIdRequestChanges: "c", client.InboxActionIdCorrect: "c",
	client.InboxActionIdReject: "r", client.InboxActionIdDeny: "d",
}

// icons stand on the buttons that let the run go on.
var icons = map[client.InboxActionId]string{
	client.InboxActionIdApproveAndMerge: "git-merge", client.InboxActionIdAllowOnce: "shield-check", client.InboxActionIdConfirm: "check",
}

// outcome says how a job is in a word.
func outcome(status client.JobStatus) string {
	switch status {
	case client.JobStatusSucceeded:
		return "passed"
	case client.JobStatusRequested:
		return "is running"
	}
	return string(status)
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
	return "Needs the approve-loops permission. An Owner or Maintainer can grant it."
}
