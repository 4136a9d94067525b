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
