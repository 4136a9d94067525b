// Package needs is the page Needs You: decisions that wait for a person, and the forms that
// answer them.
package needs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/w/{workspace}/needs", Show: show},
		{Method: http.MethodGet, Path: "/w/{workspace}/needs/badge", Show: badge},
		{Method: http.MethodPost, Path: "/w/{workspace}/needs/{id}/answer", Do: answer, Show: show, Back: "needs", Ask: askAnswer},
	}
}

const perPage = 50

// inboxData is the content of the page.
type inboxData struct {
	client.Inbox
	Facts  map[string][]string // by run: the facts that it recorded before a fact review
	People []client.Member     // Owners and Maintainers; loaded only if the person may not answer a decision
}

// Limits of what the page loads besides the decisions.
const (
	maxFactRuns = 10
	maxMembers  = 100
)

func show(v *page.Visit) (page.Page, error) {
	offset := v.QueryNumber("offset")
	inbox, err := client.Decode[client.Inbox](v.API.ListInbox(v.Context(), &client.ListInboxParams{
		Limit: client.Optional(int64(perPage)), Offset: client.Optional(offset),
	}))
	title := "Needs You"
	if n := inbox.Head.Answerable; n > 0 {
		title = "(" + strconv.FormatInt(n, 10) + ") Needs You"
	}
	d := inboxData{Inbox: inbox, Facts: map[string][]string{}}
	if err == nil {
		err = d.load(v)
	}
	return page.Page{Title: title, NavEntry: "needs", Main: view(v, d)}, err
}

// newerPage returns the address of the page before this one, "" for the first page.
func (d inboxData) newerPage(v *page.Visit) string {
	switch {
	case d.Offset == 0:
		return ""
	case d.Offset <= perPage:
		return v.Path("needs")
	}
	return v.Path("needs") + "?offset=" + strconv.FormatInt(d.Offset-perPage, 10)
}

// olderPage returns the address of the page after this one, "" for the last page.
func (d inboxData) olderPage(v *page.Visit) string {
	if len(d.Items) == 0 || d.Offset+int64(len(d.Items)) >= d.Total {
		return ""
	}
	return v.Path("needs") + "?offset=" + strconv.FormatInt(d.Offset+perPage, 10)
}

// leadRoles are the roles whose members may answer, unless a setting of their own says otherwise.
var leadRoles = [...]client.ListMembersParamsRole{client.ListMembersParamsRoleOwner, client.ListMembersParamsRoleMaintainer}

// load reads the facts of the page's decisions, and the members if the person cannot answer
// one of them.
func (d *inboxData) load(v *page.Visit) error {
	var loads []func(context.Context) error
	var facts [maxFactRuns][]string
	var runs []string
	refused := false
	for _, item := range d.Items {
		refused = refused || disabledReason(v, item.Actions) != ""
		if i := len(runs); item.KindId == client.InboxItemKindIdFactReview && i < maxFactRuns {
			runs = append(runs, item.RunId)
			loads = append(loads, func(ctx context.Context) (err error) {
				facts[i], err = factsOf(ctx, v, item.RunId)
				return err
			})
		}
	}
	var leads [len(leadRoles)][]client.Member
	for i, role := range leadRoles {
		if refused {
			loads = append(loads, func(ctx context.Context) error {
				list, err := client.Decode[client.MemberList](v.API.ListMembers(ctx, &client.ListMembersParams{
					Role: client.Optional(role), Limit: client.Optional(int64(maxMembers)),
				}))
				leads[i] = list.Items
				return err
			})
		}
	}
	err := v.Load(loads...)
	d.People = slices.Concat(leads[:]...)
	for i, run := range runs {
		d.Facts[run] = facts[i]
	}
	return err
}

// factsOf returns the facts that a run recorded last, nil if none are on the newest page of
// its events.
func factsOf(ctx context.Context, v *page.Visit, run string) ([]string, error) {
	list, err := client.Decode[client.RunEventsBody](v.API.ListRunEvents(ctx, run, &client.ListRunEventsParams{Order: new(client.Desc)}))
	for _, e := range list.Items {
		if e.Kind != "run.facts_recorded" {
			continue
		}
		var recorded struct{ Facts []string }
		if text, err := json.Marshal(e.Data); err == nil && json.Unmarshal(text, &recorded) == nil {
			return recorded.Facts, nil
		}
	}
	return nil, err
}

// splitSource splits a fact such as "The issue says: nothing." into its source and the rest.
func splitSource(fact string) (source, text string) {
	const longest = 24
	source, text, ok := strings.Cut(fact, ": ")
	if !ok || len(source) > longest {
		return "", fact
	}
	return source, text
}

// questionText returns the question of a decision. For a merge it includes the issue's title, once.
func questionText(item client.InboxItem) string {
	if item.KindId != client.InboxItemKindIdMergeApproval || item.Subject.PrNumber == nil || item.Subject.IssueTitle == "" ||
		strings.Contains(item.Question, item.Subject.IssueTitle) {
		return item.Question
	}
	number := "#" + strconv.FormatInt(*item.Subject.PrNumber, 10)
	return strings.Replace(item.Question, number+" ", number+" “"+item.Subject.IssueTitle+"” ", 1)
}

// eligible returns up to three people who may answer a kind of decision, Owners and Maintainers first.
func (d inboxData) eligible(kind client.InboxItemKindId) (list []client.Member) {
	const most = 3
	for _, wantLead := range []bool{true, false} {
		for _, m := range d.People {
			lead := m.Role == client.MemberRoleOwner || m.Role == client.MemberRoleMaintainer
			if lead == wantLead && mayAnswer(m, kind, lead) && len(list) < most {
				list = append(list, m)
			}
		}
	}
	return list
}

func firstName(m client.Member) string {
	first, _, _ := strings.Cut(kit.NameOrEmail(m.Name, m.Email), " ")
	return first
}

// askPeople links to people who may answer: "Ask Ada, Ben or Mia." A template would put blanks before the commas.
func askPeople(v *page.Visit, people []client.Member) templ.Component {
	var text strings.Builder
	for i, m := range people {
		switch {
		case i == 0:
			text.WriteString("Ask ")
		case i == len(people)-1:
			text.WriteString(" or ")
		default:
			text.WriteString(", ")
		}
		text.WriteString(`<a href="` + templ.EscapeString(memberPath(v, m)) + `"><bdi>` + templ.EscapeString(firstName(m)) + `</bdi></a>`)
	}
	if len(people) > 0 {
		text.WriteByte('.')
	}
	return templ.Raw(text.String())
}

// memberPath returns the address of the page of members that shows a member.
func memberPath(v *page.Visit, m client.Member) string {
	return v.Path("members") + "?q=" + url.QueryEscape(m.Email)
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

// badge shows the number of decisions that the person can answer, for the navigation.
func badge(v *page.Visit) (page.Page, error) {
	inbox, err := client.Decode[client.Inbox](v.API.ListInbox(v.Context(), &client.ListInboxParams{Limit: client.Optional(int64(1))}))
	return page.Page{Part: badgeView(inbox.Head.Answerable)}, err
}

// refusedAnswer is an answer that the service refused. The page keeps its text.
type refusedAnswer struct {
	decision, action, note string
	refused                string // the reason
}

// refusedAnswerTo returns the answer to a decision that this request sent and the service
// refused, or zero.
func refusedAnswerTo(v *page.Visit, decision string, action client.InboxActionId) refusedAnswer {
	if u, ok := v.Result.(refusedAnswer); ok && u.decision == decision && u.action == string(action) {
		return u
	}
	return refusedAnswer{}
}

// lostNote returns the text of a refused answer if no decision of the page accepts it any
// more, else "".
func lostNote(v *page.Visit, items []client.InboxItem) string {
	u, ok := v.Result.(refusedAnswer)
	if !ok {
		return ""
	}
	for _, item := range items {
		for _, a := range item.Actions {
			if item.Id == u.decision && string(a.Id) == u.action && a.Allowed && requiresNote(a) {
				return ""
			}
		}
	}
	return u.note
}

// answer sends an answer with the commit that the person saw. The service refuses it if
// there are newer commits.
func answer(v *page.Visit) (page.Notice, error) {
	form := refusedAnswer{decision: v.PathValue("id"), action: v.PostFormValue("action"), note: strings.TrimSpace(v.PostFormValue("note"))}
	params := client.AnswerDecisionParams{IdempotencyKey: v.IdempotencyKey()}
	err := client.CheckResponse(v.API.AnswerDecision(v.Context(), form.decision, &params, client.NewAnswerBody{
		Action:       client.NewAnswerBodyAction(form.action),
		ExpectedHead: client.Optional(v.PostFormValue("head")),
		Note:         client.Optional(form.note),
	}))
	if r := client.AsRefused(err); r != nil {
		form.refused = page.Sentence(r)
		v.Result = form
	}
	return page.Notice{Text: "Answered: " + kit.Words(form.action) + "."}, err
}

// answerQuestion asks before an answer is sent, as none can be taken back. Answers with a text are written in a dialog,
// which is question enough.
func answerQuestion(item client.InboxItem, action client.InboxActionId) page.Question {
	issue := "#" + kit.Digits(item.Subject.IssueNumber)
	switch action {
	case client.InboxActionIdApproveAndMerge:
		return page.Question{
			Title: questionText(item), Text: "It is merged at commit " + shortCommit(item) + ". A merge can't be undone here.",
			Yes: mergeLabel(item), No: "Not now", Plain: true,
		}
	case client.InboxActionIdAllowOnce:
		return page.Question{
			Title: item.Question, Text: "The run goes on with commit " + shortCommit(item) + ". It is asked again before it merges.",
			Yes: "Allow it once for " + issue, No: "Not now", Plain: true,
		}
	case client.InboxActionIdDeny:
		return page.Question{
			Title: "Deny the change for " + issue + "?", Text: "The run implements " + issue + " again, without the change of protected files.",
			Yes: "Deny it for " + issue, No: "Not now",
		}
	case client.InboxActionIdConfirm:
		return page.Question{
			Title: item.Question, Text: "The run of " + issue + " goes on with what it found.",
			Yes: "Confirm it for " + issue, No: "Not now", Plain: true,
		}
	case client.InboxActionIdReject:
		return page.Question{
			Title: "Reject " + issue + "?", Text: "Its run ends, and its pull request is closed. This can't be undone.",
			Yes: "Reject " + issue, No: "Keep it",
		}
	case client.InboxActionIdCorrect, client.InboxActionIdRequestChanges:
		return page.Question{}
	}
	return page.Question{
		Title: item.Question, Text: "An answer can't be taken back.",
		Yes: "Answer " + issue + " with: " + kit.Words(string(action)), No: "Not now",
	}
}

// mergeLabel names what an approval does: "Merge #300 into main".
func mergeLabel(item client.InboxItem) string {
	i := strings.LastIndex(item.Question, " into ")
	if item.Subject.PrNumber == nil || i < 0 {
		return "Approve and merge"
	}
	return "Merge #" + kit.Digits(*item.Subject.PrNumber) + strings.TrimSuffix(item.Question[i:], "?")
}

func shortCommit(item client.InboxItem) string {
	return item.Subject.HeadSha[:min(7, len(item.Subject.HeadSha))]
}

// askAnswer asks nothing about a decision that waits no longer, which the service refuses.
func askAnswer(v *page.Visit) (page.Question, error) {
	item, ok, err := page.Find(func(offset int64) ([]client.InboxItem, int64, error) {
		list, err := client.Decode[client.Inbox](v.API.ListInbox(v.Context(), &client.ListInboxParams{
			Limit: client.Optional(int64(perPage)), Offset: client.Optional(offset),
		}))
		return list.Items, list.Total, err
	}, func(item client.InboxItem) bool { return item.Id == v.PathValue("id") })
	if err != nil || !ok {
		return page.Question{}, err
	}
	return answerQuestion(item, client.InboxActionId(v.PostFormValue("action"))), nil
}

// answerKeys are the keyboard shortcuts of answers. A always lets the run go on.
var answerKeys = map[client.InboxActionId]string{
	client.InboxActionIdApproveAndMerge: "a", client.InboxActionIdAllowOnce: "a", client.InboxActionIdConfirm: "a",
	client.InboxActionIdRequestChanges: "c", client.InboxActionIdCorrect: "c",
	client.InboxActionIdReject: "r", client.InboxActionIdDeny: "d",
}

// answerIcons are the icons of the buttons that let the run go on.
var answerIcons = map[client.InboxActionId]string{
	client.InboxActionIdApproveAndMerge: "git-merge", client.InboxActionIdAllowOnce: "shield-check", client.InboxActionIdConfirm: "check",
}

// lastJobs returns the last attempts of jobs by name, at most four: those that tested the newest commit.
func lastJobs(jobs []client.Job) (list []client.Job) {
	const most = 4
	for _, j := range slices.Backward(jobs) {
		if len(list) < most && !slices.ContainsFunc(list, func(other client.Job) bool { return other.Name == j.Name }) {
			list = append(list, j)
		}
	}
	slices.Reverse(list)
	return list
}

// jobOutcome names the status of a job.
func jobOutcome(status client.JobStatus) string {
	switch status {
	case client.JobStatusSucceeded:
		return "passed"
	case client.JobStatusRequested:
		return "is running"
	}
	return string(status)
}

// requiresNote reports whether an answer needs a text.
func requiresNote(a client.InboxAction) bool {
	return a.Id == client.InboxActionIdCorrect || a.Id == client.InboxActionIdRequestChanges
}

// disabledReason describes why the person can give none of the answers, "" if they can give one.
func disabledReason(v *page.Visit, actions []client.InboxAction) string {
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
