package projections_test

import (
	"io"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
	"svc/migrations"
	"svc/projections"
	"svc/test/pgtest"
	"svc/test/world"
)

// The migration makes rows of an older build equal to the log.
func TestMigratedMembersEqualTheLog(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, pgtest.MigrationsBefore(t, "../migrations", "0035").Migrate(t.Context(), conn, io.Discard))

	db := world.Connect(t, url)
	workspace := world.NewID()
	commit := &events.Commit{Workspace: workspace, Envelope: events.Envelope{Actor: world.System}, At: world.Epoch,
		Writes: []events.Write{{Stream: workspace}}}
	for i, email := range []string{"ann@acme.example", "Ünal@x", "no-address", "a@b@C.example", "@", "", "x@"} {
		joined := events.MemberJoined{Member: world.NewID(), User: world.NewID(), Email: email, Role: events.Roles()[i%4]}
		commit.Writes[0].Events = append(commit.Writes[0].Events, joined)
		_, err := db.Exec(t.Context(), `
			insert into members (workspace_id, member_id, user_id, email, role, joined_at) values ($1, $2, $3, $4, $5, $6)`,
			workspace, joined.Member, joined.User, joined.Email, joined.Role, world.Epoch)
		require.NoError(t, err)
	}
	others := slices.DeleteFunc(projections.Inline(), func(v store.View) bool {
		return slices.Contains([]string{"members", "member_counts", "member_words"}, v.(interface{ Name() string }).Name())
	})
	log := store.New(db, others, func(events.ID, int64) {})
	defer log.Close()
	_, err = log.Append(t.Context(), commit)
	require.NoError(t, err)

	require.NoError(t, migrations.Migrate(t.Context(), conn, io.Discard))
	db.Reset()
	require.Empty(t, world.Compare(t, db, workspace).Differences)
	for _, name := range []string{"members", "member_counts", "member_words"} {
		rows := world.Dump(t, db, name)
		require.NotEmpty(t, rows)
		world.Rebuild(t, db, world.View(t, name))
		require.Equal(t, rows, world.Dump(t, db, name), name)
	}
}
