package needs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// A key means the same on each card, and no card has one twice.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, card := range [][]client.InboxActionId{
		{client.InboxActionIdApproveAndMerge, client.InboxActionIdRequestChanges, client.InboxActionIdReject},
		{client.InboxActionIdAllowOnce, client.InboxActionIdDeny},
		{client.InboxActionIdConfirm, client.InboxActionIdCorrect, client.InboxActionIdReject},
	} {
		seen := map[string]bool{"": true}
		for _, id := range card {
			require.True(t, id.Valid())
			require.False(t, seen[keys[id]], id)
			seen[keys[id]] = true
		}
		require.Equal(t, "a", keys[card[0]])
	}
	require.Equal(t, "c", keys[client.InboxActionIdRequestChanges])
	require.Equal(t, "r", keys[client.InboxActionIdReject])
}

func TestReasons(t *testing.T) {
	t.Parallel()
	role, loops := client.RoleRequired, client.CapabilityRequired
	may := client.InboxAction{Allowed: true}
	v := &page.Visit{}
	v.Workspace.You.Role = client.YouRoleMember
	require.Empty(t, reason(v, []client.InboxAction{{DisabledReason: &role}, may}))
	require.Equal(t, "Needs the Owner or Maintainer role. You are a Viewer.", reason(v, []client.InboxAction{{DisabledReason: &role}}))
	require.Contains(t, reason(v, []client.InboxAction{{DisabledReason: &loops}}), "approve-loops")
}

// A text stays on the page: in the dialog of its decision, or above all of them if that is gone.
func TestTextNotSent(t *testing.T) {
	t.Parallel()
	item := client.InboxItem{Id: "1", Actions: []client.InboxAction{{Id: client.InboxActionIdCorrect, Allowed: true}}}
	v := &page.Visit{}
	require.Empty(t, textNotSent(v, nil))
	v.Done = unsent{decision: "1", action: "correct", note: "It is 7."}
	require.Empty(t, textNotSent(v, []client.InboxItem{item}))
	require.Equal(t, "It is 7.", textNotSent(v, nil))
	item.Actions[0].Allowed = false
	require.Equal(t, "It is 7.", textNotSent(v, []client.InboxItem{item}))
}

func TestWhoCan(t *testing.T) {
	t.Parallel()
	d := data{People: []client.Member{
		{Name: "Zoe Vo", Role: client.MemberRoleViewer, CanApproveLoops: true},
		{Name: "Ada Lind", Role: client.MemberRoleOwner, CanApproveLoops: true},
		{Name: "Max Weber", Role: client.MemberRoleMaintainer},
		{Name: "Ben Okoro", Role: client.MemberRoleOwner, CanApproveLoops: true},
	}}
	require.Equal(t, "Ada, Ben or Zoe", d.whoCan(client.InboxItemKindIdMergeApproval))
	require.Equal(t, "Ada or Ben", d.whoCan(client.InboxItemKindIdProtectedPathAllowOnce))
	require.Equal(t, "Ada, Max or Ben", d.whoCan(client.InboxItemKindIdFactReview))
	require.Empty(t, data{}.whoCan(client.InboxItemKindIdMergeApproval))
}

func TestQuestion(t *testing.T) {
	t.Parallel()
	item := client.InboxItem{KindId: client.InboxItemKindIdMergeApproval, Question: "Merge #12 into main?"}
	require.Equal(t, "Merge #12 into main?", question(item))
	item.Subject.PrNumber, item.Subject.IssueTitle = new(int64(12)), "Fix it"
	require.Equal(t, "Merge #12 “Fix it” into main?", question(item))
}

func TestFactsHaveASource(t *testing.T) {
	t.Parallel()
	source, text := labelled("The issue says: it is: slow")
	require.Equal(t, []string{"The issue says", "it is: slow"}, []string{source, text})
	source, text = labelled("Two places could be meant.")
	require.Equal(t, []string{"", "Two places could be meant."}, []string{source, text})
}
