package projections

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/events/store"
	"svc/input"
)

// An AuditRecord is an event as the audit log tells it.
type AuditRecord struct {
	events.Record
	Action  string
	Denied  string // the code of the refusal; empty for what did happen
	Target  events.Target
	Changes []events.Change
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
	high := int64(math.MaxInt64)
	if q.Before > 0 {
		high = q.Before
	}
	s, err := v.search(ctx, q.Workspace, q.AuditFilter, 1, high)
	if err != nil {
		return nil, 0, fmt.Errorf("audit of %s: %w", q.Workspace, err)
	}
	rows, err := s.newest(ctx, q.Limit+1)
	if err != nil {
		return nil, 0, fmt.Errorf("audit of %s: %w", q.Workspace, err)
	}
	if s.high > s.low { // there is a part that it has not looked through
		next = s.high
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		next = rows[q.Limit-1].Seq()
	}
	for i := range rows {
		list = append(list, rows[i].Record())
	}
	return list, next, nil
}

// After returns up to limit records that f leaves, the oldest first, with
// numbers above seq and up to upTo. They are not decoded yet.
func (v Audit) After(ctx context.Context, workspace events.ID, f AuditFilter, seq, upTo int64, limit int) ([]AuditRow, error) {
	s, err := v.search(ctx, workspace, f, seq+1, upTo+1)
	if err != nil {
		return nil, fmt.Errorf("audit of %s after %d: %w", workspace, seq, err)
	}
	list, err := s.oldest(ctx, limit)
	if err != nil {
		return nil, fmt.Errorf("audit of %s after %d: %w", workspace, seq, err)
	}
	return list, nil
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
	found := AuditRecord{Record: r, Target: r.Target(), Changes: r.Changes()}
	found.Target.Name = cmp.Or(found.Target.Name, target)
	found.Action, found.Denied = r.Action()
	return found
}

// How far an id's time may be before its record's, which is that of the clock
// that was ahead of all others, and how many records of that span are searched.
const (
	clockSkew  = time.Hour
	idSpanMost = 1 << 16
)

// Get returns the record of an id. ok is false if there is none. An id says when
// it was made, and times do not run backwards in a log, so it is looked for in
// what follows that time.
func (v Audit) Get(ctx context.Context, workspace, id events.ID) (r AuditRecord, ok bool, err error) {
	fail := func(err error) (AuditRecord, bool, error) {
		return AuditRecord{}, false, fmt.Errorf("audit record %s of %s: %w", id, workspace, err)
	}
	made := id.Time()
	s, err := v.search(ctx, workspace, AuditFilter{From: made, To: made.Add(clockSkew)}, 1, math.MaxInt64)
	if err != nil {
		return fail(err)
	}
	var seq int64
	rows, _ := v.DB.Query(ctx, `
		select seq from events where workspace_id = $1 and seq >= $2 and seq < $3 and id = $4 order by seq limit 1`,
		workspace, s.low, min(s.high, s.low+idSpanMost), id)
	if _, err := pgx.ForEachRow(rows, []any{&seq}, func() error { return nil }); err != nil || seq == 0 {
		if err != nil {
			return fail(err)
		}
		return AuditRecord{}, false, nil
	}
	s.low, s.high = seq, seq+1
	list, err := s.oldest(ctx, 1)
	if err != nil || len(list) == 0 {
		return fail(cmp.Or(err, pgx.ErrNoRows))
	}
	return list[0].Record(), true, nil
}

// terms returns what the index finds f by, what finds the fewest first.
func (f AuditFilter) terms() (list []term) {
	named := func(idField, nameField byte, value string) {
		if id, err := events.ParseID(value); err == nil {
			list = append(list, newTerm(idField, id.String()))
			return
		}
		if address, ok := input.Email(value); ok {
			value = address
		}
		list = append(list, newTerm(nameField, clip(value)))
	}
	if f.Target != "" {
		named(targetIDField, targetNameField, f.Target)
	}
	if f.Actor != "" {
		named(actorIDField, actorNameField, f.Actor)
	}
	begin, isPrefix := strings.CutSuffix(f.Action, "*")
	if noun, _, dotted := strings.Cut(begin, "."); isPrefix && dotted {
		list = append(list, newTerm(nounField, noun))
	} else if f.Action != "" && !isPrefix {
		list = append(list, newTerm(actionField, f.Action))
	}
	if f.ActorType != "" {
		list = append(list, newTerm(actorTypeField, string(f.ActorType)))
	}
	return list
}

// text returns what has to be looked for in the texts of records, which no term says.
func (f AuditFilter) text() textFilter {
	t := textFilter{part: foldCase(f.Q)}
	if begin, isPrefix := strings.CutSuffix(f.Action, "*"); isPrefix {
		if _, rest, dotted := strings.Cut(begin, "."); !dotted || rest != "" {
			t.action = begin
		}
	}
	return t
}

// A textFilter leaves the records whose action begins with one text, and that
// have another, in any case, in their action or the name of their actor or target.
type textFilter struct{ action, part string }

func (f textFilter) isZero() bool { return f == textFilter{} }

// leaves reports whether f leaves a record.
func (f textFilter) leaves(t recordText) bool {
	return strings.HasPrefix(t.action, f.action) && (f.part == "" || f.has(t.action) || f.has(t.actor) || f.has(t.target))
}

func (f textFilter) has(s string) bool { return strings.Contains(foldCase(s), f.part) }

// narrow takes the records out of a set that f does not leave. Each different
// text of the block is looked at once.
func (f textFilter) narrow(s *recordSet, texts *blockTexts) {
	begins, has := make([]bool, len(texts.strings)), make([]bool, len(texts.strings))
	for i, text := range texts.strings {
		begins[i], has[i] = strings.HasPrefix(text, f.action), f.part == "" || f.has(text)
	}
	for i, r := range texts.records {
		if s.has(i) && (!begins[r[0]] || !has[r[0]] && !has[r[1]] && !has[r[2]]) {
			s.remove(i)
		}
	}
}
