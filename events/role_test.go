package events_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestParseRole(t *testing.T) {
	for text, want := range map[string]events.Role{
		"Owner": events.Owner, "Maintainer": events.Maintainer, "Viewer": events.Viewer, "member": events.Legacy,
		"owner": events.Owner, "MAINTAINER": events.Maintainer, "vIEWER": events.Viewer, "Member": events.Legacy,
	} {
		got, ok := events.ParseRole(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "king", "Owner ", "owner,viewer", "own", "Ownership"} {
		got, ok := events.ParseRole(text)
		require.False(t, ok, text)
		require.Empty(t, got, text)
	}
}

func TestRoles(t *testing.T) {
	for _, c := range []struct {
		role      events.Role
		displayed string
	}{
		{events.Owner, "Owner"},
		{events.Maintainer, "Maintainer"},
		{events.Viewer, "Viewer"},
		{events.Legacy, "Viewer"},
	} {
		require.Equal(t, c.displayed, c.role.Displayed(), c.role)
	}
}

// The matrix of the specification: which role has which right.
func TestRights(t *testing.T) {
	const owner, maintainer, legacy, viewer = events.Owner, events.Maintainer, events.Legacy, events.Viewer
	matrix := []struct {
		says  string
		right events.Right
		roles []events.Role
	}{
		{"Everyone in the workspace can read the Members & roles card", events.ReadWorkspace, []events.Role{owner, maintainer, legacy, viewer}},
		{"POST /backlog/queue (person: Owner, Maintainer, legacy member)", events.QueueIssues, []events.Role{owner, maintainer, legacy}},
		{"beyond a Viewer [legacy member] may answer fact_review decisions", events.ReviewFacts, []events.Role{owner, maintainer, legacy}},
		{"POST /runs/{id}/cancel", events.CancelRuns, []events.Role{owner, maintainer}},
		{"protected_path_allow_once: disabled with role_required for all others", events.AllowProtectedPaths, []events.Role{owner, maintainer}},
		{"without [a tick] Owner and Maintainer have it, Viewer and legacy member do not", events.ApproveLoops, []events.Role{owner, maintainer}},
		{"only an Owner or Maintainer can change [the card]", events.ManageMembers, []events.Role{owner, maintainer}},
		{"Only an Owner may invite an Owner; a Maintainer changes no Owner", events.ManageOwners, []events.Role{owner}},
		{"Only Owners and Maintainers can see, create, rotate and revoke service accounts", events.ManageServiceAccounts,
			[]events.Role{owner, maintainer}},
		{"[audit:] Owner and Maintainer read", events.ReadAudit, []events.Role{owner, maintainer}},
		{"[audit:] Owner exports, replays, verifies", events.ExportAudit, []events.Role{owner}},
		{"PATCH /workspace {name?, slug?} (PATCH: Owner)", events.ChangeWorkspace, []events.Role{owner}},
		{"An Owner deletes a workspace [...] any Owner of it restores it", events.DeleteWorkspace, []events.Role{owner}},
		{"POST /farm/jobs submits and cancels (person: Owner, Maintainer)", events.RunJobs, []events.Role{owner, maintainer}},
		{"[farm:] mint (person, Owner/Maintainer), drain, resume, revoke", events.ManageRunners, []events.Role{owner, maintainer}},
		{"[farm:] secrets of jobs (Owner, Maintainer)", events.ManageFarmSecrets, []events.Role{owner, maintainer}},
		{"GET, POST /repos, PATCH, DELETE, check, pause, resume, credential (Owner, Maintainer)", events.ManageRepos, []events.Role{owner,
			maintainer}},
	}
	var judged []events.Right
	for _, row := range matrix {
		judged = append(judged, row.right)
		line := fmt.Sprintf("%-85s", row.says)
		for _, role := range []events.Role{owner, maintainer, legacy, viewer} {
			may := slices.Contains(row.roles, role)
			line += fmt.Sprintf(" %s=%t", role, may)
			require.Equal(t, may, role.May(row.right), "%s: %s", role, row.says)
		}
		t.Log(line)
		require.Equal(t, row.roles, row.right.Roles(), row.says)
		require.False(t, events.Role("").May(row.right), "who is no member: %s", row.says)
	}
	require.Equal(t, events.Rights(), judged, "each right has a sentence")
	require.False(t, owner.May(0), "what is no right nobody has")
}

func TestMayApproveLoops(t *testing.T) {
	ticked, unticked := true, false
	for _, c := range []struct {
		role     events.Role
		explicit *bool
		may      bool
	}{
		{events.Owner, nil, true},
		{events.Maintainer, nil, true},
		{events.Viewer, nil, false},
		{events.Legacy, nil, false},
		{events.Owner, &unticked, false},
		{events.Maintainer, &unticked, false},
		{events.Viewer, &unticked, false},
		{events.Legacy, &unticked, false},
		{events.Owner, &ticked, true},
		{events.Maintainer, &ticked, true},
		{events.Viewer, &ticked, true},
		{events.Legacy, &ticked, true},
	} {
		require.Equal(t, c.may, events.MayApproveLoops(c.role, c.explicit), "%v", c)
	}
}
