package members

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// The file says what the role is, not as what it is shown.
func TestExportHasTheRole(t *testing.T) {
	row := string(appendRow(nil, client.Member{Name: "Leo Brandt", Email: "leo@acme.example", Role: "member", DisplayRole: "Viewer"}))
	require.Contains(t, row, `"leo@acme.example","member","false"`)
}
