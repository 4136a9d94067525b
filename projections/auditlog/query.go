package auditlog

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
	"svc/projections/fold"
)

// An AuditRecord is an event as the audit log shows it.
type AuditRecord struct {
	events.Record
	Action  string
	Denied  string // error code of a refused command; empty for events that happened
	Target  events.Target
	Changes []events.Change
}

// An AuditFilter selects records by the fields that are not zero. A field with several values,
// separated by commas, selects the records that have one of them.
type AuditFilter struct {
	From, To  time.Time // From is inclusive, To exclusive
	Actor     string    // names or ids
	ActorType events.ActorType
	Category  events.Category
	Action    string // kinds, or prefixes of kinds such as "member.*"
	Target    string // name or id; not split, because a name may have commas
	Q         string // part of an action or a name, case-insensitive
}

// An AuditQuery asks for a page of a workspace's records, newest first. Unless Before is 0, the
// page has only records with lower numbers.
type AuditQuery struct {
	Workspace events.ID
	Before    int64
	Limit     int
	AuditFilter
}

// An AuditPage is a page of records.
type AuditPage struct {
	Records []AuditRecord
	Next    int64 // Before of the next page; 0 if this is the last page
	Head    int64 // the last number in the log
}

// Page answers q. One call searches a bounded part of the log, so a page may have fewer records
// than asked for, or none, and still a next page.
func (v Audit) Page(ctx context.Context, q AuditQuery) (page AuditPage, err error) {
	high := int64(math.MaxInt64)
	if q.Before > 0 {
		high = q.Before
	}
	fail := func(err error) (AuditPage, error) {
		return AuditPage{}, fmt.Errorf("read audit of %s: %w", q.Workspace, err)
	}
	s, release, err := v.search(ctx, q.Workspace, q.AuditFilter, 1, high)
	if err != nil {
		return fail(err)
	}
	defer release()
	page.Head = s.head
	rows, err := s.newest(ctx, q.Limit+1)
	if err != nil {
		return fail(err)
	}
	if s.high > s.low { // a part of the log is not searched yet
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

// PageAfter returns records after a number, oldest first. Next is the number to continue after, or
// 0 at the end. As with Page, a page may have fewer records than asked for.
func (v Audit) PageAfter(ctx context.Context, workspace events.ID, f AuditFilter, after int64, limit int) (page AuditPage, err error) {
	fail := func(err error) (AuditPage, error) {
		return AuditPage{}, fmt.Errorf("read audit of %s after %d: %w", workspace, after, err)
	}
	s, release, err := v.search(ctx, workspace, f, min(after, math.MaxInt64-1)+1, math.MaxInt64)
	if err != nil {
		return fail(err)
	}
	defer release()
	page.Head, s.bounded = s.head, true
	rows, err := s.oldest(ctx, limit+1)
	if err != nil {
		return fail(err)
	}
	if s.low < s.high { // a part of the log is not searched yet
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

// Count returns how many records match f. If that requires a search, the result is at most most. It
// is exact unless there are more, or the search stopped at its bound.
func (v Audit) Count(ctx context.Context, workspace events.ID, f AuditFilter, most int) (n int, exact bool, err error) {
	s, release, err := v.search(ctx, workspace, f, 1, math.MaxInt64)
	if err == nil {
		defer release()
		n, exact, err = s.count(ctx, most)
	}
	if err != nil {
		return 0, false, fmt.Errorf("count audit of %s: %w", workspace, err)
	}
	return n, exact, nil
}

// RowsAfter returns up to limit matching records, oldest first, with numbers above seq and up to upTo.
// They are not decoded. It returns fewer records if they are large, but at least one if one matches. It
// returns [fold.ErrNotCaughtUp] if the database that answers, which may be a replica, lacks records up to upTo,
// or if its index is too far behind to tell the names of their targets.
func (v Audit) RowsAfter(ctx context.Context, workspace events.ID, f AuditFilter, seq, upTo int64, limit int) ([]AuditRow, error) {
	fail := func(err error) ([]AuditRow, error) {
		return nil, fmt.Errorf("read audit of %s after %d: %w", workspace, seq, err)
	}
	s, release, err := v.search(ctx, workspace, f, seq+1, upTo+1)
	if err != nil {
		return fail(err)
	}
	defer release()
	if min(s.head, s.indexed+maxTail) < upTo {
		return fail(fold.ErrNotCaughtUp)
	}
	s.whole = true
	list, err := s.oldest(ctx, limit)
	if err != nil {
		return fail(err)
	}
	return list, nil
}

// search prepares a search on one connection, which release returns to the pool: the pool may have
// connections to several servers, and all parts of the search must see the same one.
func (v Audit) search(
	ctx context.Context, workspace events.ID, f AuditFilter, low, high int64,
) (s *auditSearch, release func(), err error) {
	conn, err := v.DB.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	if s, err = newAuditSearch(ctx, conn, workspace, f, low, high); err != nil {
		conn.Release()
		return nil, nil, err
	}
	return s, conn.Release, nil
}

// An AuditRow is a record that is not decoded.
type AuditRow struct {
	store.Row
	target string // last known name of the target
}

// Record decodes the row.
func (r *AuditRow) Record() AuditRecord {
	return NewAuditRecord(r.Row.Record(), r.target)
}

// NewAuditRecord returns the audit record of an event. target is the last known name of the event's
// target; it is used if the event has none.
func NewAuditRecord(r events.Record, target string) AuditRecord {
	found := AuditRecord{Record: r, Target: r.Target(), Changes: r.Changes()}
	found.Target.Name = cmp.Or(found.Target.Name, target)
	found.Action, found.Denied = r.Action()
	return found
}

// AuditRecords returns a function that returns the audit record of an event. It is to be called with every event
// of a log, from the first one on, because a target may have its name from an earlier event.
func AuditRecords() func(events.Record) AuditRecord {
	names := targetNames{}
	return func(r events.Record) AuditRecord { return NewAuditRecord(r, names.nameOf(r.Target())) }
}

// maxIDSpan is how many records are searched for an id.
const maxIDSpan = 1 << 16

// Get returns the record with an id. ok is false if there is none. An id contains the time of its
// creation, and times never decrease in a log, so Get searches only the records after that time. The time of
// the record itself may be hours later, if a clock was ahead when the record before was appended.
func (v Audit) Get(ctx context.Context, workspace, id events.ID) (r AuditRecord, ok bool, err error) {
	fail := func(err error) (AuditRecord, bool, error) {
		return AuditRecord{}, false, fmt.Errorf("read audit record %s of %s: %w", id, workspace, err)
	}
	made := id.Time()
	s, release, err := v.search(ctx, workspace, AuditFilter{From: made}, 1, math.MaxInt64)
	if err != nil {
		return fail(err)
	}
	defer release()
	var seq int64
	rows, _ := s.db.Query(ctx, `
		select seq from events where workspace_id = $1 and seq >= $2 and seq < $3 and id = $4 order by seq limit 1`,
		workspace, s.low, min(s.high, s.low+maxIDSpan), id)
	if _, err := pgx.ForEachRow(rows, []any{&seq}, func() error { return nil }); err != nil || seq == 0 {
		if err != nil {
			return fail(err)
		}
		return AuditRecord{}, false, nil
	}
	s.low, s.high, s.whole = seq, seq+1, true
	list, err := s.oldest(ctx, 1)
	if err != nil || len(list) == 0 {
		return fail(cmp.Or(err, pgx.ErrNoRows))
	}
	return list[0].Record(), true, nil
}

// terms returns the terms of f for the index, the most selective first. A record matches if it has
// one term of each list.
func (f AuditFilter) terms() (list [][]term) {
	add := func(terms ...term) {
		if len(terms) > 0 {
			list = append(list, terms)
		}
	}
	if f.Target != "" {
		add(actorOrTargetTerms(targetIDField, targetNameField, f.Target)...)
	}
	var actors []term
	for _, actor := range split(f.Actor) {
		actors = append(actors, actorOrTargetTerms(actorIDField, actorNameField, actor)...)
	}
	add(actors...)
	add(actionTerms(split(f.Action))...)
	if f.ActorType != "" {
		add(newTerm(actorTypeField, string(f.ActorType)))
	}
	add(actionTerms(f.Category.Actions())...)
	return list
}

// actionTerms returns the terms of actions, or nil if one of them is a prefix that no term covers.
func actionTerms(actions []string) (list []term) {
	for _, action := range actions {
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

// actorOrTargetTerms returns the terms of an actor or target given by name or id. The name of a job may
// look like an id or an address.
func actorOrTargetTerms(idField, nameField byte, value string) []term {
	list := []term{newTerm(nameField, clip(value))}
	if id, err := events.ParseID(value); err == nil {
		list = append(list, newTerm(idField, id.String()))
	}
	if address, ok := input.Email(value); ok && address != value {
		list = append(list, newTerm(nameField, clip(address)))
	}
	return list
}

// split returns the comma-separated values of a field; nil if it is empty.
func split(values string) []string {
	if values == "" {
		return nil
	}
	return strings.Split(values, ",")
}

// textFilter returns the part of the filter that must be checked against the texts of records, because no
// term covers it.
func (f AuditFilter) textFilter() textFilter {
	t := textFilter{part: input.SearchText(f.Q)}
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

// A textFilter matches records by action and text. The action must equal one of actions, or begin
// with one that ends in *; nil matches any action. part must occur in the action or in the name of
// the actor or target, in the form of [input.SearchText].
type textFilter struct {
	actions []string
	part    string
}

func (f textFilter) isZero() bool { return f.actions == nil && f.part == "" }

// matches reports whether a record matches.
func (f textFilter) matches(t recordText) bool {
	return f.isAction(t.action) && (f.part == "" || f.has(t.action) || f.has(t.actor) || f.has(t.target))
}

func (f textFilter) isAction(s string) bool {
	return f.actions == nil || slices.ContainsFunc(f.actions, func(action string) bool {
		begin, isPrefix := strings.CutSuffix(action, "*")
		return s == action || isPrefix && strings.HasPrefix(s, begin)
	})
}

func (f textFilter) has(s string) bool { return strings.Contains(input.SearchText(s), f.part) }

// narrow removes records that do not match from a set. It checks each distinct text of the block
// once.
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
