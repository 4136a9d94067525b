package needs

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// A key means the same on each card, and no card has a key twice.
func TestAnswerKeys(t *testing.T) {
	t.Parallel()
	for _, card := range [][]client.InboxActionId{
		{client.InboxActionIdApproveAndMerge, client.InboxActionIdRequestChanges, client.InboxActionIdReject},
		{client.InboxActionIdAllowOnce, client.InboxActionIdDeny},
		{client.InboxActionIdConfirm, client.InboxActionIdCorrect, client.InboxActionIdReject},
	} {
		seen := map[string]bool{"": true}
		for _, id := range card {
			require.True(t, id.Valid())
			require.False(t, seen[answerKeys[id]], id)
			seen[answerKeys[id]] = true
		}
		require.Equal(t, "a", answerKeys[card[0]])
	}
	require.Equal(t, "c", answerKeys[client.InboxActionIdRequestChanges])
	require.Equal(t, "r", answerKeys[client.InboxActionIdReject])
}

func TestDisabledReason(t *testing.T) {
	t.Parallel()
	role, loops := client.RoleRequired, client.CapabilityRequired
	allowed := client.InboxAction{Allowed: true}
	v := &page.Visit{}
	v.Workspace.You.Role = client.YouRoleMember
	require.Empty(t, disabledReason(v, []client.InboxAction{{DisabledReason: &role}, allowed}))
	require.Equal(t, "Needs the Owner or Maintainer role. You are a Viewer.", disabledReason(v, []client.InboxAction{{DisabledReason: &role}}))
	require.Contains(t, disabledReason(v, []client.InboxAction{{DisabledReason: &loops}}), "approve-loops")
}

// A refused text stays on the page: in the dialog of its decision, or at the top if there is
// no such dialog any more.
func TestLostNote(t *testing.T) {
	t.Parallel()
	item := client.InboxItem{Id: "1", Actions: []client.InboxAction{{Id: client.InboxActionIdCorrect, Allowed: true}}}
	v := &page.Visit{}
	require.Empty(t, lostNote(v, nil))
	v.Result = refusedAnswer{decision: "1", action: "correct", note: "It is 7."}
	require.Empty(t, lostNote(v, []client.InboxItem{item}))
	require.Equal(t, "It is 7.", lostNote(v, nil))
	item.Actions[0].Allowed = false
	require.Equal(t, "It is 7.", lostNote(v, []client.InboxItem{item}))
}

func TestEligiblePeople(t *testing.T) {
	t.Parallel()
	names := func(list []client.Member) (names []string) {
		for _, m := range list {
			names = append(names, firstName(m))
		}
		return names
	}
	d := inboxData{People: []client.Member{
		{Name: "Zoe Vo", Role: client.MemberRoleViewer, CanApproveLoops: true},
		{Name: "Ada Lind", Role: client.MemberRoleOwner, CanApproveLoops: true},
		{Name: "Max Weber", Role: client.MemberRoleMaintainer},
		{Name: "Ben Okoro", Role: client.MemberRoleOwner, CanApproveLoops: true},
	}}
	require.Equal(t, []string{"Ada", "Ben", "Zoe"}, names(d.eligible(client.InboxItemKindIdMergeApproval)))
	require.Equal(t, []string{"Ada", "Ben"}, names(d.eligible(client.InboxItemKindIdProtectedPathAllowOnce)))
	require.Equal(t, []string{"Ada", "Max", "Ben"}, names(d.eligible(client.InboxItemKindIdFactReview)))
	require.Empty(t, inboxData{}.eligible(client.InboxItemKindIdMergeApproval))
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	item := client.InboxItem{KindId: client.InboxItemKindIdMergeApproval, Question: "Merge #12 into main?"}
	require.Equal(t, "Merge #12 into main?", questionText(item))
	item.Subject.PrNumber, item.Subject.IssueTitle = new(int64(12)), "Fix it"
	require.Equal(t, "Merge #12 “Fix it” into main?", questionText(item))
	item.Question = "Merge #12 “Fix it” into main?"
	require.Equal(t, item.Question, questionText(item))
}

func TestLastJobs(t *testing.T) {
	t.Parallel()
	jobs := []client.Job{{Id: "1", Name: "test"}, {Id: "2", Name: "lint"}, {Id: "3", Name: "test"}}
	require.Equal(t, jobs[1:], lastJobs(jobs))
	require.Empty(t, lastJobs(nil))
}

// An older page leads back, also when its decisions have been answered and only newer ones wait.
func TestPages(t *testing.T) {
	t.Parallel()
	render := func(offset, shown, total int64) string {
		r := httptest.NewRequest(http.MethodGet, "/w/acme/needs", nil)
		r.SetPathValue("workspace", "acme")
		d := inboxData{Inbox: client.Inbox{Offset: offset, Total: total, Items: make([]client.InboxItem, shown)}}
		var out bytes.Buffer
		require.NoError(t, view(&page.Visit{Request: r}, d).Render(t.Context(), &out))
		return out.String()
	}
	const newer, older, done = ">Newer</a>", ">Older</a>", "all caught up"
	first := render(0, 50, 120)
	require.NotContains(t, first, newer)
	require.Contains(t, first, `href="/w/acme/needs?offset=50">Older</a>`)
	second := render(50, 50, 120)
	require.Contains(t, second, `href="/w/acme/needs">Newer</a>`)
	require.Contains(t, second, `href="/w/acme/needs?offset=100">Older</a>`)
	last := render(100, 20, 120)
	require.Contains(t, last, `href="/w/acme/needs?offset=50">Newer</a>`)
	require.NotContains(t, last, older)
	answered := render(50, 0, 3)
	require.NotContains(t, answered, done)
	require.Contains(t, answered, `href="/w/acme/needs">Show the newest</a>`)
	require.Contains(t, answered, `href="/w/acme/needs">Newer</a>`)
	require.NotContains(t, answered, older)
	require.Contains(t, render(0, 0, 0), done)
	require.NotContains(t, render(0, 3, 3), newer)
}

func TestSplitSource(t *testing.T) {
	t.Parallel()
	source, text := splitSource("The issue says: it is: slow")
	require.Equal(t, []string{"The issue says", "it is: slow"}, []string{source, text})
	source, text = splitSource("Two places could be meant.")
	require.Equal(t, []string{"", "Two places could be meant."}, []string{source, text})
}
