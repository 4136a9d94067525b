package projections

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
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

// An AuditFilter narrows the records by each field that is not zero. Of several values
// of a field, with commas in between, a record has either.
type AuditFilter struct {
	From, To  time.Time // from the first on, before the second
	Actor     string    // names or ids
	ActorType events.ActorType
	Action    string // kinds, or prefixes of kinds such as "member.*"
	Target    string // name or id; a name may have commas
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

// An AuditPage is a page of records.
type AuditPage struct {
	Records []AuditRecord
	Next    int64 // the Before of the next page; 0 if there is none
	Head    int64 // the newest number in the log
}

// Page answers q. A page may have fewer records than asked for, or none, and a next
// one: of a log without end a search looks through a part at a time.
func (v Audit) Page(ctx context.Context, q AuditQuery) (page AuditPage, err error) {
	high := int64(math.MaxInt64)
	if q.Before > 0 {
		high = q.Before
	}
	fail := func(err error) (AuditPage, error) {
		return AuditPage{}, fmt.Errorf("audit of %s: %w", q.Workspace, err)
	}
	s, err := v.search(ctx, q.Workspace, q.AuditFilter, 1, high)
	if err != nil {
		return fail(err)
	}
	page.Head = s.head
	rows, err := s.newest(ctx, q.Limit+1)
	if err != nil {
		return fail(err)
	}
	if s.high > s.low { // there is a part that it has not looked through
		page.Next = s.high
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		page.Next = rows[q.Limit-1].Seq()
	}
	for i := range rows {
		page.Records = append(page.Records, rows[i].Record())
	}
	return page, nil
}

// Following returns the records after a number, the oldest first. Next, unless 0, is
// after which to go on: a page may have fewer records than asked for here too.
func (v Audit) Following(ctx context.Context, workspace events.ID, f AuditFilter, after int64, limit int) (page AuditPage, err error) {
	fail := func(err error) (AuditPage, error) {
		return AuditPage{}, fmt.Errorf("audit of %s after %d: %w", workspace, after, err)
	}
	s, err := v.search(ctx, workspace, f, after+1, math.MaxInt64)
	if err != nil {
		return fail(err)
	}
	page.Head, s.bounded = s.head, true
	rows, err := s.oldest(ctx, limit+1)
	if err != nil {
		return fail(err)
	}
	if s.low < s.high { // there is a part that it has not looked through
		page.Next = s.low - 1
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = rows[limit-1].Seq()
	}
	for i := range rows {
		page.Records = append(page.Records, rows[i].Record())
	}
	return page, nil
}

// Count returns how many records f leaves: at most most, where they have to be looked
// for. It is exact unless there are more, or a part of the log was left out that would
// take too long.
func (v Audit) Count(ctx context.Context, workspace events.ID, f AuditFilter, most int) (n int, exact bool, err error) {
	s, err := v.search(ctx, workspace, f, 1, math.MaxInt64)
	if err == nil {
		n, exact, err = s.count(ctx, most)
	}
	if err != nil {
		return 0, false, fmt.Errorf("count audit of %s: %w", workspace, err)
	}
	return n, exact, nil
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

// terms returns what the index finds f by, what finds the fewest first: of each list of
// terms a record has one.
func (f AuditFilter) terms() (list [][]term) {
	add := func(terms ...term) {
		if len(terms) > 0 {
			list = append(list, terms)
		}
	}
	if f.Target != "" {
		add(named(targetIDField, targetNameField, f.Target))
	}
	var actors []term
	for _, actor := range split(f.Actor) {
		actors = append(actors, named(actorIDField, actorNameField, actor))
	}
	add(actors...)
	add(f.actions()...)
	if f.ActorType != "" {
		add(newTerm(actorTypeField, string(f.ActorType)))
	}
	return list
}

// actions are the terms of the actions, none if one of them is a beginning that no term finds.
func (f AuditFilter) actions() (list []term) {
	for _, action := range split(f.Action) {
		begin, isPrefix := strings.CutSuffix(action, "*")
		noun, _, dotted := strings.Cut(begin, ".")
		switch {
		case !isPrefix:
			list = append(list, newTerm(actionField, action))
		case dotted:
			list = append(list, newTerm(nounField, noun))
		default:
			return nil
		}
	}
	return list
}

// named is the term of an actor or a target of that name or id.
func named(idField, nameField byte, value string) term {
	if id, err := events.ParseID(value); err == nil {
		return newTerm(idField, id.String())
	}
	if address, ok := input.Email(value); ok {
		value = address
	}
	return newTerm(nameField, clip(value))
}

// split returns the values of a field; none if it is empty.
func split(values string) []string {
	if values == "" {
		return nil
	}
	return strings.Split(values, ",")
}

// text returns what has to be looked for in the texts of records, which no term says.
func (f AuditFilter) text() textFilter {
	t := textFilter{part: foldCase(f.Q)}
	needed := false
	for _, action := range split(f.Action) {
		begin, isPrefix := strings.CutSuffix(action, "*")
		_, rest, dotted := strings.Cut(begin, ".")
		needed = needed || isPrefix && (!dotted || rest != "")
	}
	if needed {
		t.actions = split(f.Action)
	}
	return t
}

// A textFilter leaves the records with one of some actions, or any if there are none,
// where one with a * at its end is all that begin so; and of those the ones that have a
// text, in any case, in their action or the name of their actor or target.
type textFilter struct {
	actions []string
	part    string
}

func (f textFilter) isZero() bool { return f.actions == nil && f.part == "" }

// leaves reports whether f leaves a record.
func (f textFilter) leaves(t recordText) bool {
	return f.isAction(t.action) && (f.part == "" || f.has(t.action) || f.has(t.actor) || f.has(t.target))
}

func (f textFilter) isAction(s string) bool {
	return f.actions == nil || slices.ContainsFunc(f.actions, func(action string) bool {
		begin, isPrefix := strings.CutSuffix(action, "*")
		return s == action || isPrefix && strings.HasPrefix(s, begin)
	})
}

func (f textFilter) has(s string) bool { return strings.Contains(foldCase(s), f.part) }

// narrow takes the records out of a set that f does not leave. Each different
// text of the block is looked at once.
func (f textFilter) narrow(s *recordSet, texts *blockTexts) {
	is, has := make([]bool, len(texts.strings)), make([]bool, len(texts.strings))
	for i, text := range texts.strings {
		is[i], has[i] = f.isAction(text), f.part == "" || f.has(text)
	}
	for i, r := range texts.records {
		if s.has(i) && (!is[r[0]] || !has[r[0]] && !has[r[1]] && !has[r[2]]) {
			s.remove(i)
		}
	}
}
