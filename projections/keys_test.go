package projections

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// Whether a revoked service account keeps its name is in its event: those of earlier versions gave it up, and another account
// may have it.
func TestRevokedServiceAccountKeepsItsName(t *testing.T) {
	account := events.ID{1}
	for keeps, want := range map[bool]*uniqueKey{
		true:  {events.ID{2}, "service_account/ci-bot", account},
		false: nil,
	} {
		revoked := events.ServiceAccountRevoked{Account: account, Name: "ci-bot", KeepsName: keeps}
		require.Equal(t, want, uniqueKeys.Apply(account, nil, events.Record{Workspace: events.ID{2}, Stream: account, Event: revoked}))
	}
}
