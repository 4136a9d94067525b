package needs

import (
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

func TestEligibleNames(t *testing.T) {
	t.Parallel()
	d := inboxData{People: []client.Member{
		{Name: "Zoe Vo", Role: client.MemberRoleViewer, CanApproveLoops: true},
		{Name: "Ada Lind", Role: client.MemberRoleOwner, CanApproveLoops: true},
		{Name: "Max Weber", Role: client.MemberRoleMaintainer},
		{Name: "Ben Okoro", Role: client.MemberRoleOwner, CanApproveLoops: true},
	}}
	require.Equal(t, "Ada, Ben or Zoe", d.eligibleNames(client.InboxItemKindIdMergeApproval))
	require.Equal(t, "Ada or Ben", d.eligibleNames(client.InboxItemKindIdProtectedPathAllowOnce))
	require.Equal(t, "Ada, Max or Ben", d.eligibleNames(client.InboxItemKindIdFactReview))
	require.Empty(t, inboxData{}.eligibleNames(client.InboxItemKindIdMergeApproval))
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	item := client.InboxItem{KindId: client.InboxItemKindIdMergeApproval, Question: "Merge #12 into main?"}
	require.Equal(t, "Merge #12 into main?", questionText(item))
	item.Subject.PrNumber, item.Subject.IssueTitle = new(int64(12)), "Fix it"
	require.Equal(t, "Merge #12 “Fix it” into main?", questionText(item))
}

func TestSplitSource(t *testing.T) {
	t.Parallel()
	source, text := splitSource("The issue says: it is: slow")
	require.Equal(t, []string{"The issue says", "it is: slow"}, []string{source, text})
	source, text = splitSource("Two places could be meant.")
	require.Equal(t, []string{"", "Two places could be meant."}, []string{source, text})
}
