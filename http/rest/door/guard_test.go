package door

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/http/rest/schema"
)

// A member without the right passes a guard of their own membership only if the path names it.
func TestGuardAdmitsMembersToTheirOwnMembership(t *testing.T) {
	own := Guard{Right: events.ManageMembers, Own: true}
	id, other := schema.ExampleNo(4), schema.ExampleNo(5)
	for target, admitted := range map[string]bool{id.String(): true, other.String(): false, "": false, "x": false} {
		c := &Caller{Person: &Person{Role: events.Viewer, Member: id}, target: target}
		require.Equal(t, admitted, c.May(own) == nil, target)
		require.Error(t, c.May(MayDo(events.ManageMembers)), target)
	}
}

func TestGuardString(t *testing.T) {
	for want, g := range map[string]Guard{
		"any member": AnyMember, "any member, or a token with api.read": AnyMemberOrReadToken, "Owner": MayDo(events.ExportAudit),
		"Owner or Maintainer":                              MayDo(events.CancelRuns),
		"Owner or Maintainer, or a token with farm.submit": Guard{Scope: events.SubmitJobs, Right: events.RunJobs},
		"Owner, Maintainer or legacy member":               MayDo(events.QueueIssues),
	} {
		require.Equal(t, want, g.String())
	}
}
