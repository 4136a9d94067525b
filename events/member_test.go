package events_test

import (
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
		role        events.Role
		displayed   string
		administers bool
	}{
		{events.Owner, "Owner", true},
		{events.Maintainer, "Maintainer", true},
		{events.Viewer, "Viewer", false},
		{events.Legacy, "Viewer", false},
	} {
		require.Equal(t, c.displayed, c.role.Displayed(), c.role)
		require.Equal(t, c.administers, c.role.Administers(), c.role)
	}
	require.False(t, events.Role("").Administers(), "who is no member")
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
