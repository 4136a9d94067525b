package auth_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The number of records, which every member can read, tells Viewers no more than the answers do:
// an address that no list shows is refused alike, whether it is a member's or nobody's.
func TestRemovalDoesNotTellViewersWhoseAddressItIs(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	owner := s.signInAs(h, ada)
	viewer := s.signInAs(h, account{ID: 7, Login: "vera"}.with("vera@acme.example", "vera@home.example"))
	organization := owner.session()["session"]["activeOrganizationId"].(string)
	invited := owner.do(call{path: "/organization/invite-member",
		body: fieldsOf("email", "vera@acme.example", "role", "viewer", "organizationId", organization)})
	require.Equal(t, http.StatusOK, invited.StatusCode, invited.text)
	var invitation struct{ ID string }
	decode(t, invited.text, &invitation)
	accepted := viewer.do(call{path: "/organization/accept-invitation", body: fieldsOf("invitationId", invitation.ID)})
	require.Equal(t, http.StatusOK, accepted.StatusCode, accepted.text)

	remove := func(address string) answer {
		return viewer.do(call{path: "/organization/remove-member",
			body: fieldsOf("memberIdOrEmail", address, "organizationId", organization)})
	}
	var counts []int
	for _, address := range []string{"nobody@home.example", "nobody@home.example", "ada@home.example", "ada@acme.example"} {
		remove(address).requireRefused(http.StatusUnauthorized, "YOU_ARE_NOT_ALLOWED_TO_DELETE_THIS_MEMBER")
		counts = append(counts, s.recorded("command.denied"))
	}
	require.Equal(t, []int{1, 1, 1, 1}, counts)
	require.Equal(t, http.StatusOK, remove("vera@home.example").StatusCode, "but they may leave")
}
