package people

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/rest/door"
	"svc/projections"
	"svc/test/callers"
	"svc/test/pgtest"
	"svc/test/world"
)

// The position of a workspace is that of the database from which lists are read, so that a client that
// streams from it misses nothing that the lists lack. The role is that at the head of the log.
func TestPositionIsThatOfLists(t *testing.T) {
	t.Parallel()
	primary, replica := pgtest.New(t), pgtest.New(t)
	workspace := world.FillLog(t, primary, 7)
	_, err := primary.Exec(t.Context(),
		`insert into workspaces (workspace_id, name, slug, created_at) values ($1, 'Acme', 'acme', now())`, workspace)
	require.NoError(t, err)
	c := callers.Owner(workspace)
	_, err = primary.Exec(t.Context(),
		`insert into members values ($1, gen_random_uuid(), $2, 'vera@x', 'Viewer', null, now(), '', 'vera@x')`, workspace, c.Person.User)
	require.NoError(t, err)
	s := &Server{ListedWorkspaces: projections.Workspaces{DB: replica}, Door: door.New(door.Config{
		Workspaces: projections.Workspaces{DB: primary}, Log: slog.New(slog.DiscardHandler),
	})}

	head := int64(7)
	seq := func() int64 {
		answer, err := s.getWorkspace(callers.As(t, c), nil)
		require.NoError(t, err)
		require.Equal(t, "Viewer", answer.Body.You.Role, "not that with which the caller was admitted")
		require.Equal(t, head, answer.Body.Head)
		return answer.Body.Seq
	}
	require.Zero(t, seq(), "the replica does not have the workspace yet")
	_, err = replica.Exec(t.Context(), `insert into logs values ($1, 5, '2027-01-01')`, workspace)
	require.NoError(t, err)
	require.EqualValues(t, 5, seq())
	_, err = replica.Exec(t.Context(), `update logs set head = 9`)
	require.NoError(t, err)
	require.EqualValues(t, 7, seq(), "not behind the head at which the role was read")
	replica.Close()
	require.Zero(t, seq(), "the log is no longer than what the replica may lag")
	for _, sql := range []string{`update logs set head = 1007`, `update checkpoints set seq = 1007`} {
		_, err = primary.Exec(t.Context(), sql+` where workspace_id = $1`, workspace)
		require.NoError(t, err)
	}
	head = 1007
	require.EqualValues(t, 7, seq())
}
