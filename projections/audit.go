package projections

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/events/store"
)

// Audit is the view that the audit log is searched by. It is followed. What it
// finds is answered from the events themselves.
type Audit struct{ DB *pgxpool.Pool }

type auditRow struct {
	Workspace  events.ID        `db:"workspace_id"`
	Seq        int64            `db:"seq"`
	ID         events.ID        `db:"id"`
	At         time.Time        `db:"at"`
	Action     string           `db:"action"`
	ActorType  events.ActorType `db:"actor_type"`
	ActorID    events.ID        `db:"actor_id"`
	ActorName  string           `db:"actor_name"`
	TargetType string           `db:"target_type"` // what the action begins with
	TargetID   events.ID        `db:"target_id"`
	TargetName string           `db:"target_name"` // as this or an earlier event said
	Search     string           `db:"search"`
}

// targetNames are the names that targets are shown by.
type targetNames map[rowID[events.ID]]string

// auditFold makes the rows of records that follow what names is left of.
func auditFold(names targetNames) *fold[int64, auditRow] {
	return &fold[int64, auditRow]{
		table: "audit", key: "seq", log: true,
		keys: func(r events.Record) []int64 { return []int64{r.Seq} },
		apply: func(seq int64, _ *auditRow, r events.Record) *auditRow {
			t := targetOf(r)
			action, _ := actionOf(r)
			row := &auditRow{
				Workspace: r.Workspace, Seq: seq, ID: r.ID, At: r.At, Action: clip(action),
				ActorType: events.ActorType(clip(string(r.Actor.Type))), ActorID: r.Actor.ID, ActorName: clip(r.Actor.Name),
				TargetType: clip(t.Type), TargetID: t.ID, TargetName: names.of(r.Workspace, t),
			}
			row.Search = foldCase(row.Action + " " + row.ActorName + " " + row.TargetName)
			return row
		},
	}
}

// of returns the name of a target, and remembers one that the target brings.
func (n targetNames) of(workspace events.ID, t Target) string {
	id := rowID[events.ID]{workspace, t.ID}
	switch {
	case t.ID.IsZero():
		return clip(t.Name)
	case t.Name != "":
		n[id] = clip(t.Name)
	}
	return n[id]
}

// auditView is the fold of all events, also of those that nobody can decode.
// Most events of a run do not say which issue it is for: what the target was
// called last is looked up in the view itself.
type auditView struct{ *fold[int64, auditRow] }

var audit = auditView{auditFold(nil)}

func (auditView) after(ctx context.Context, db store.Querier, list []store.Position, limit int) ([]events.Record, error) {
	return store.AnyAfterEach(ctx, db, list, limit)
}

func (auditView) load(b *pgx.Batch, table string, records []events.Record) func(*pgx.Batch) error {
	names := targetNames{}
	names.read(b, table, records)
	return auditFold(names).load(b, table, records)
}

func (auditView) copyLog(ctx context.Context, tx pgx.Tx, table string, next func() ([]events.Record, error), park parking) error {
	return auditFold(targetNames{}).copyLog(ctx, tx, table, next, park)
}

// read queues looking up what the targets that records do not name were called.
func (n targetNames) read(b *pgx.Batch, table string, records []events.Record) {
	var workspaces, ids []events.ID
	for _, r := range records {
		if t := targetOf(r); t.Name == "" && !t.ID.IsZero() {
			workspaces, ids = append(workspaces, r.Workspace), append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	b.Queue(fmt.Sprintf(`
		select k.workspace_id, k.id, a.target_name
		from (select distinct * from unnest($1::uuid[], $2::uuid[]) as k (workspace_id, id)) k
		cross join lateral (
			select target_name from %s t where t.workspace_id = k.workspace_id and t.target_id = k.id
			order by t.seq desc limit 1) a`, table), workspaces, ids,
	).Query(func(rows pgx.Rows) error {
		var id rowID[events.ID]
		var name string
		_, err := pgx.ForEachRow(rows, []any{&id.workspace, &id.key, &name}, func() error { n[id] = name; return nil })
		return err
	})
}

// clipped is how many characters of a name are searched: an entry of an index
// has a limit, and names of others, such as repositories, may have none.
const clipped = 256

func clip(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(s); len(runes) > clipped {
		return string(runes[:clipped])
	}
	return s
}

// foldCase makes texts that differ in case alone the same. The database's
// lower() does that for the letters of its locale, which may be ASCII.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }, s)
}
