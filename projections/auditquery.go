package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
	"svc/input"
)

// auditWindow is how many records are looked through for one page by what no
// index finds: a text within names, or several things at once.
const auditWindow = 20_000

// An AuditRecord is an event as the audit log tells it.
type AuditRecord struct {
	events.Record
	Action  string
	Denied  string // the code of the refusal; empty for what did happen
	Target  Target
	Changes []Change
}

// An AuditFilter narrows the records by each field that is not zero.
type AuditFilter struct {
	From, To  time.Time // from the first on, before the second
	Actor     string    // name or id
	ActorType events.ActorType
	Action    string // a kind, or a prefix of kinds such as "member.*"
	Target    string // name or id
	Q         string // part of an action or of a name, in any case
}

// An AuditQuery asks for a page of records of a workspace's log, the newest
// first: those with a seq below Before, unless it is 0.
type AuditQuery struct {
	Workspace events.ID
	Before    int64
	Limit     int
	AuditFilter
}

// Page answers q. next, unless 0, is the Before of the next page. A page may
// have fewer records than asked for, or none, and a next one: of a log without
// end a search looks through a part at a time.
func (v Audit) Page(ctx context.Context, q AuditQuery) (list []AuditRecord, next int64, err error) {
	low, high, err := v.span(ctx, q.Workspace, q.From, q.To)
	if err == nil && q.Before > 0 {
		high = min(high, q.Before)
	}
	if err == nil && q.searches() {
		low, next, err = v.window(ctx, q.Workspace, low, high)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("audit of %s: %w", q.Workspace, err)
	}
	where, args := q.where(q.Workspace, low, high)
	list, err = v.list(ctx, where, "desc", q.Limit+1, args)
	if err != nil {
		return nil, 0, fmt.Errorf("audit of %s: %w", q.Workspace, err)
	}
	if len(list) > q.Limit {
		list = list[:q.Limit]
		next = list[q.Limit-1].Seq
	}
	return list, next, nil
}

// After returns up to limit records that f leaves, the oldest first, with
// numbers above seq and up to upTo. They are not decoded yet.
func (v Audit) After(ctx context.Context, workspace events.ID, f AuditFilter, seq, upTo int64, limit int) ([]AuditRow, error) {
	low, high, err := v.span(ctx, workspace, f.From, f.To)
	if err != nil {
		return nil, fmt.Errorf("audit of %s: %w", workspace, err)
	}
	where, args := f.where(workspace, max(low, seq+1), min(high, upTo+1))
	list, err := v.rows(ctx, where, "asc", limit, args)
	if err != nil {
		return nil, fmt.Errorf("audit of %s after %d: %w", workspace, seq, err)
	}
	return list, nil
}

// Of returns the record of an id. ok is false if there is none.
func (v Audit) Of(ctx context.Context, workspace, id events.ID) (r AuditRecord, ok bool, err error) {
	list, err := v.list(ctx, `a.workspace_id = $1 and a.id = $2`, "asc", 1, []any{workspace, id})
	if err != nil {
		return r, false, fmt.Errorf("audit record %s of %s: %w", id, workspace, err)
	}
	if len(list) == 0 {
		return r, false, nil
	}
	return list[0], true, nil
}

// An AuditRow is a record that is not decoded yet.
type AuditRow struct {
	store.Row
	target string // what it was called last
}

// Record decodes the row.
func (r *AuditRow) Record() AuditRecord {
	return NewAuditRecord(r.Row.Record(), r.target)
}

// NewAuditRecord returns what the audit log tells of an event. target is what its
// target was called last, for an event that does not say.
func NewAuditRecord(r events.Record, target string) AuditRecord {
	found := AuditRecord{Record: r, Target: targetOf(r), Changes: changesOf(r)}
	found.Target.Name = cmp.Or(found.Target.Name, target)
	found.Action, found.Denied = actionOf(r)
	return found
}

// list decodes what rows reads.
func (v Audit) list(ctx context.Context, where, order string, limit int, args []any) ([]AuditRecord, error) {
	rows, err := v.rows(ctx, where, order, limit, args)
	if err != nil {
		return nil, err
	}
	list := make([]AuditRecord, len(rows))
	for i := range rows {
		list[i] = rows[i].Record()
	}
	return list, nil
}

// rows reads records in the order of an index and then each event by its key,
// whatever the planner believes of the tables ("offset 0").
func (v Audit) rows(ctx context.Context, where, order string, limit int, args []any) ([]AuditRow, error) {
	args = append(args, limit)
	rows, _ := v.DB.Query(ctx, fmt.Sprintf(`
		select e.*, a.target_name
		from (select workspace_id, seq, target_name from audit a where %s order by seq %s limit $%d) a
		cross join lateral (
			select workspace_id, seq, id, stream, version, kind, schema, at, meta, data
			from events e where e.workspace_id = a.workspace_id and e.seq = a.seq offset 0) e
		order by a.seq %[2]s`, where, order, len(args)), args...)
	return pgx.AppendRows(make([]AuditRow, 0, limit), rows, func(row pgx.CollectableRow) (r AuditRow, err error) {
		r.Row, err = store.ScanRow(row, &r.target)
		return r, err
	})
}

// span finds the numbers of a time: from low up to, without, high.
func (v Audit) span(ctx context.Context, workspace events.ID, from, to time.Time) (low, high int64, err error) {
	low, high = 1, math.MaxInt64
	first := func(at time.Time, seq *int64) error {
		if at.IsZero() {
			return nil
		}
		err := v.DB.QueryRow(ctx, `select seq from audit where workspace_id = $1 and at >= $2 order by at, seq limit 1`, workspace, at).Scan(seq)
		if errors.Is(err, pgx.ErrNoRows) {
			*seq, err = math.MaxInt64, nil
		}
		return err
	}
	return low, high, errors.Join(first(from, &low), first(to, &high))
}

// window returns where the part of [low, high) that one page looks through
// begins, and the high of the part below, 0 if there is none.
func (v Audit) window(ctx context.Context, workspace events.ID, low, high int64) (begin, next int64, err error) {
	var top int64
	err = v.DB.QueryRow(ctx, `select coalesce(max(seq), 0) from audit where workspace_id = $1 and seq < $2`, workspace, high).Scan(&top)
	if begin = top - auditWindow + 1; begin <= low {
		return low, 0, err
	}
	return begin, begin, err
}

// searches reports whether no single index finds what f leaves.
func (f AuditFilter) searches() bool {
	n := 0
	for _, set := range []bool{f.Actor != "", f.ActorType != "", f.Action != "" && f.Action != "*", f.Target != ""} {
		if set {
			n++
		}
	}
	return n > 1 || f.Q != "" || strings.HasSuffix(f.Action, "*") && !strings.HasSuffix(f.Action, ".*")
}

// where turns f into conditions. Each compares one column with one value, so
// that an index of that column, in the order of seq, answers it.
func (f AuditFilter) where(workspace events.ID, low, high int64) (sql string, args []any) {
	var terms []string
	add := func(term string, values ...any) {
		for _, value := range values {
			args = append(args, value)
			term = strings.Replace(term, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		terms = append(terms, term)
	}
	named := func(column, text string) {
		if id, err := events.ParseID(text); err == nil {
			add(`a.`+column+`_id = ?`, id)
			return
		}
		if address, ok := input.Email(text); ok {
			text = address
		}
		add(`a.`+column+`_name = ?`, clip(text))
	}
	add(`a.workspace_id = ? and a.seq >= ? and a.seq < ?`, workspace, low, high)
	if f.Actor != "" {
		named("actor", f.Actor)
	}
	if f.ActorType != "" {
		add(`a.actor_type = ?`, f.ActorType)
	}
	if noun, ok := strings.CutSuffix(f.Action, ".*"); ok && !strings.Contains(noun, ".") {
		add(`a.target_type = ?`, noun)
	} else if prefix, ok := strings.CutSuffix(f.Action, "*"); ok {
		add(`starts_with(a.action, ?)`, prefix)
	} else if f.Action != "" {
		add(`a.action = ?`, f.Action)
	}
	if f.Target != "" {
		named("target", f.Target)
	}
	if f.Q != "" {
		add(`strpos(a.search, ?) > 0`, foldCase(f.Q))
	}
	return strings.Join(terms, " and "), args
}
