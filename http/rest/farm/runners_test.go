package farm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/rest/door"
	"svc/projections"
)

func TestTokensDoNotSeeNamesOfPeople(t *testing.T) {
	t.Parallel()
	const ada = "ada@acme.example"
	token, person := &door.Caller{Token: &projections.ServiceToken{}}, &door.Caller{Person: &door.Person{}}
	s := &Server{Door: door.New(door.Config{Now: time.Now})}
	require.Equal(t, ada, s.showRunner(person)(projections.Runner{NotedBy: ada}).NotedBy)
	require.Empty(t, s.showRunner(token)(projections.Runner{NotedBy: ada}).NotedBy)
}
