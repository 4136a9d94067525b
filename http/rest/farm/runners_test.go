package farm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/http/rest/door"
	"svc/projections"
	"svc/projections/farmviews"
)

func TestTokensDoNotSeeNamesOfPeople(t *testing.T) {
	t.Parallel()
	const ada = "ada@acme.example"
	token, person := &door.Caller{Token: &projections.ServiceToken{}}, &door.Caller{Person: &door.Person{}}
	s := &Server{Door: door.New(door.Config{Now: time.Now})}
	require.Equal(t, ada, s.showRunner(person)(farmviews.Runner{NotedBy: ada}).NotedBy)
	require.Empty(t, s.showRunner(token)(farmviews.Runner{NotedBy: ada}).NotedBy)
}
