package projections

import (
	"context"
	"fmt"
	"strings"
	"time"

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
	At         time.Time        `db:"at"`
	Action     string           `db:"action"`
	ActorType  events.ActorType `db:"actor_type"`
	ActorID    events.ID        `db:"actor_id"`
	ActorName  string           `db:"actor_name"`
	TargetType string           `db:"target_type"`
	TargetID   events.ID        `db:"target_id"`
	TargetName string           `db:"target_name"`
}

var audit = &fold[int64, auditRow]{
	table: "audit", key: "seq", log: true,
	keys: func(r events.Record) []int64 { return []int64{r.Seq} },
	apply: func(seq int64, _ *auditRow, r events.Record) *auditRow {
		t := targetOf(r)
		action, _ := actionOf(r)
		return &auditRow{
			Workspace: r.Workspace, Seq: seq, At: r.At, Action: action,
			ActorType: r.Actor.Type, ActorID: r.Actor.ID, ActorName: r.Actor.Name,
			TargetType: t.Type, TargetID: t.ID, TargetName: t.Name,
		}
	},
}

// An AuditRecord is an event as the audit log tells it.
type AuditRecord struct {
	events.Record
	Action  string
	Denied  string // the code of the refusal; empty for what did happen
	Target  Target
	Changes []Change
}

// An AuditQuery asks for records of a workspace's log, the newest first. Each
// field that is not zero narrows it.
type AuditQuery struct {
	Workspace events.ID
	Before    int64 // records with a smaller seq
	From, To  time.Time
	Actor     string // name or id
	ActorType events.ActorType
	Action    string // a kind, or a prefix of kinds such as "member.*"
	Target    string // name or id
	Q         string // part of an action or of a name
	Limit     int
}

// Page answers q. There is more if it returns as many as asked for.
func (v Audit) Page(ctx context.Context, q AuditQuery) ([]AuditRecord, error) {
	where, args := q.where()
	args = append(args, q.Limit)
	rows, _ := v.DB.Query(ctx, `
		select e.workspace_id, e.seq, e.id, e.stream, e.version, e.kind, e.schema, e.at, e.meta, e.data,
			coalesce(nullif(a.target_name, ''), r.repo_name || '#' || r.issue_number, m.email, i.email, 'service:' || s.name, '')
		from audit a
		join events e on e.workspace_id = a.workspace_id and e.seq = a.seq
		left join members m on m.workspace_id = a.workspace_id and m.member_id = a.target_id
		left join invitations i on i.workspace_id = a.workspace_id and i.invitation_id = a.target_id
		left join service_accounts s on s.workspace_id = a.workspace_id and s.account_id = a.target_id
		left join runs r on r.workspace_id = a.workspace_id and r.run_id = a.target_id
		where `+where+fmt.Sprintf(` order by a.seq desc limit $%d`, len(args)), args...)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (AuditRecord, error) {
		var target string
		record, err := store.Scan(row, &target)
		if err != nil {
			return AuditRecord{}, err
		}
		found := AuditRecord{Record: record, Target: targetOf(record), Changes: changesOf(record)}
		found.Action, found.Denied = actionOf(record)
		found.Target.Name = target
		return found, nil
	})
	if err != nil {
		return nil, fmt.Errorf("audit of %s: %w", q.Workspace, err)
	}
	return list, nil
}

func (q AuditQuery) where() (sql string, args []any) {
	var terms []string
	add := func(term string, value any) {
		args = append(args, value)
		terms = append(terms, strings.ReplaceAll(term, "?", fmt.Sprintf("$%d", len(args))))
	}
	add(`a.workspace_id = ?`, q.Workspace)
	if q.Before > 0 {
		add(`a.seq < ?`, q.Before)
	}
	if !q.From.IsZero() {
		add(`a.at >= ?`, q.From)
	}
	if !q.To.IsZero() {
		add(`a.at < ?`, q.To)
	}
	if q.Actor != "" {
		add(`? in (a.actor_name, a.actor_id::text)`, q.Actor)
	}
	if q.ActorType != "" {
		add(`a.actor_type = ?`, q.ActorType)
	}
	if prefix, ok := strings.CutSuffix(q.Action, "*"); ok {
		add(`starts_with(a.action, ?)`, prefix)
	} else if q.Action != "" {
		add(`a.action = ?`, q.Action)
	}
	if q.Target != "" {
		add(`? in (a.target_name, a.target_id::text)`, q.Target)
	}
	if q.Q != "" {
		add(`strpos(lower(concat_ws(' ', a.action, a.actor_name, a.target_name)), lower(?)) > 0`, q.Q)
	}
	return strings.Join(terms, " and "), args
}
