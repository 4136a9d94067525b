package commands_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/projections"
	"svc/projections/fold"
	"svc/projections/rebuild"
	"svc/test/pgtest"
)

// BenchmarkUpdateMember compares a role change in a workspace of 100,000 members with one
// in a workspace of ten, both cached. The two alternate, so that other load slows down
// both. The large one may take at most 1.5 times as long.
func BenchmarkUpdateMember(b *testing.B) {
	url := pgtest.URL(b)
	db := connect(b, url)
	sizes := [2]int{10, 100_000}
	var workspaces [2]largeWorkspace
	for i, n := range sizes {
		workspaces[i] = fill(b, url, n)
	}
	views := slices.DeleteFunc(projections.All(), func(v fold.View) bool { return v.Name() != "members" && v.Name() != "workspaces" })
	require.NoError(b, rebuild.Views(b.Context(), db, views, rebuild.Options{}))
	_, err := db.Exec(b.Context(), `analyze`)
	require.NoError(b, err)

	r := newReplica(b, url, &clock{at: epoch})
	for range 20 { // warm up: folds, connections, prepared statements
		workspaces[0].change(b, r)
		workspaces[1].change(b, r)
	}
	var took [2][]time.Duration
	for b.Loop() {
		for i := range workspaces {
			took[i] = append(took[i], workspaces[i].change(b, r))
		}
	}
	few, many := median(took[0]), median(took[1])
	b.ReportMetric(float64(few.Microseconds()), "µs/10-members")
	b.ReportMetric(float64(many.Microseconds()), "µs/100k-members")
	b.ReportMetric(float64(many)/float64(few), "ratio")
}

// A largeWorkspace has many members, one of whom has their role changed back and forth.
type largeWorkspace struct {
	id    events.ID
	owner person
	whom  events.ID
	role  *events.Role
}

// change gives the member the other role, and returns how long that took.
func (c *largeWorkspace) change(b *testing.B, r replica) time.Duration {
	*c.role = map[events.Role]events.Role{events.Viewer: events.Maintainer, events.Maintainer: events.Viewer}[*c.role]
	start := time.Now()
	_, err := r.UpdateMember(b.Context(), commands.UpdateMember{Meta: c.owner.in(c.id), Member: c.whom, Role: c.role})
	took := time.Since(start)
	require.NoError(b, err)
	return took
}

// fill creates a workspace of n members, whose views have to be rebuilt.
func fill(b *testing.B, url string, n int) largeWorkspace {
	b.Helper()
	log := store.New(connect(b, url), nil, func(events.ID, int64) {})
	defer log.Close()
	c := largeWorkspace{id: newID(), owner: newPerson("ann"), role: ptr(events.Viewer)}
	list := []events.Event{
		events.WorkspaceCreated{Name: "Acme", Slug: "acme-" + c.id.String()[24:]},
		events.MemberJoined{Member: c.owner.member, User: c.owner.user, Email: c.owner.email, Role: events.Owner},
	}
	for range n - 1 {
		p := newPerson("m")
		c.whom = p.member
		list = append(list, events.MemberJoined{Member: p.member, User: p.user, Email: p.email, Role: events.Viewer})
	}
	version := 0
	for part := range slices.Chunk(list, 2000) {
		_, err := log.Append(b.Context(), &events.Commit{
			Workspace: c.id, Envelope: systems(c.id).Envelope, At: epoch,
			Writes: []events.Write{{Stream: c.id, Version: version, Events: part}},
		})
		require.NoError(b, err)
		version += len(part)
	}
	return c
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
