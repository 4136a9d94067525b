package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/events"
	"svc/fault"
	"svc/projections"
)

func (s *Server) auditRoutes() section {
	return section{tag: "Audit", about: "Who did what.", routes: []route{
		query(s.listAudit, route{
			method: "GET", path: "/audit", guard: mayDo(events.ReadAudit), views: []string{"audit"},
			id: "listAudit", summary: "Search the audit log",
			text: "Who did what, the newest first. Each record is an event of the workspace's log; `seq` counts them without a gap." +
				" The same refusal of the same person is recorded once a minute, and 30 a minute of all that they are refused; " +
				"how many more there were is a record too, `command.denials_omitted`, a minute later at most. `nextCursor` leads " +
				"to older ones and is absent on the last page. A search by `q`, or by several filters at once, looks through " +
				"20,000 records a page: it may answer with fewer than `limit`, or none, and a `nextCursor` to go on by. `head` is the " +
				"newest number of the log, whatever is searched for. With `after` the answer has what followed a record, the oldest " +
				"first, and `nextAfter` leads on.",
			answered: exampleAudit().Body,
		}),
		query(s.getAuditRecord, route{
			method: "GET", path: "/audit/{id}", guard: mayDo(events.ReadAudit), views: []string{"audit"},
			id: "getAuditRecord", summary: "Get a record",
			text:     "One record, and the event as it is stored. 404 `audit_record_not_found` if the workspace has none of this id.",
			refuses:  []*fault.Fault{errNoRecord},
			answered: exampleStored(),
		}),
	}}
}

// An AuditRecord is an event as the audit log shows it.
type AuditRecord struct {
	ID      string        `json:"id" format:"uuid"`
	Seq     int64         `json:"seq" doc:"The record's number in the workspace's log: no number is missing."`
	At      timestamp     `json:"at"`
	Action  string        `json:"action" example:"member.role_changed"`
	Outcome string        `json:"outcome" enum:"success,denied"`
	Code    string        `json:"code,omitempty" doc:"Of a denial: the code of the refusal." example:"role_required"`
	Actor   auditActor    `json:"actor"`
	Target  auditTarget   `json:"target"`
	Changes []auditChange `json:"changes" nullable:"false"`
	Context auditContext  `json:"context"`
}

type auditActor struct {
	Type events.ActorType `json:"type" enum:"user,service,runner,system"`
	ID   string           `json:"id" example:"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"`
	Name string           `json:"name" example:"service:ci-bot"`

	DisplayName string `json:"displayName,omitempty" doc:"What a person is called today; absent of others, and in exports." example:"Zoë Brandt"`
	AvatarURL   string `json:"avatarUrl,omitempty" doc:"The picture of a person, as far as there is one; absent in exports." example:"https://avatars.example.com/u/583231"`
}

type auditTarget struct {
	Type string `json:"type" example:"member"`
	ID   string `json:"id" example:"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"`
	Name string `json:"name" example:"bob@example.com"`
}

type auditChange struct {
	Field string `json:"field" example:"role"`
	From  any    `json:"from" example:"\"Viewer\""`
	To    any    `json:"to" example:"\"Maintainer\""`
}

type auditContext struct {
	Origin    events.Origin `json:"origin" enum:"ui,api,auth,farm,cli,system"`
	IP        string        `json:"ip" example:"203.0.113.7"`
	UserAgent string        `json:"userAgent" example:"curl/8.14.1"`
	RequestID string        `json:"requestId" example:"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"`
	TokenTail string        `json:"tokenTail" example:"x9Qa"`
}

func newAuditRecord(r projections.AuditRecord) AuditRecord {
	out := AuditRecord{
		ID: r.ID.String(), Seq: r.Seq, At: at(r.At), Action: r.Action, Outcome: "success", Code: r.Denied,
		Actor:   auditActor{Type: r.Actor.Type, ID: shown(r.Actor.ID), Name: r.Actor.Name},
		Target:  auditTarget{r.Target.Type, shown(r.Target.ID), r.Target.Name},
		Changes: make([]auditChange, 0, len(r.Changes)),
		Context: auditContext{r.Origin, r.IP, r.UserAgent, r.RequestID, r.TokenTail},
	}
	if r.Denied != "" {
		out.Outcome = "denied"
	}
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, auditChange{c.Field, written(c.From), written(c.To)})
	}
	return out
}

// written gives times the form that all times have.
func written(value any) any {
	if t, ok := value.(time.Time); ok {
		return at(t)
	}
	return value
}

func shown(id events.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// An AuditFilter narrows the records of the audit log.
type AuditFilter struct {
	From      time.Time        `query:"from" doc:"Only records of this time or later." example:"2026-11-01T00:00:00Z"`
	To        time.Time        `query:"to" doc:"Only records of an earlier time than this." example:"2026-12-01T00:00:00Z"`
	Actor     string           `query:"actor" maxLength:"1000" doc:"Only records of the actor of this name or id; e-mail addresses and ids in any case. Of up to ten, with commas in between, either." example:"service:ci-bot"`
	ActorType events.ActorType `query:"actorType" enum:"user,service,runner,system"`
	Action    string           `query:"action" maxLength:"500" doc:"Only records of this action, or of all that begin as in member.* Of up to ten, with commas in between, either." example:"member.*,service_account.*"`
	Target    string           `query:"target" maxLength:"200" doc:"Only records about the target of this name or id; e-mail addresses and ids in any case." example:"acme/web#291"`
	Q         string           `query:"q" maxLength:"200" doc:"Only records that have this in their action or the name of their actor or target, in any case."`
}

// filterValues is how many values a field of a filter may have.
const filterValues = 10

// filter checks what huma cannot: the database keeps no time beyond these.
func (f AuditFilter) filter() (projections.AuditFilter, error) {
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() && (at.Year() < 1 || at.Year() > 9999) {
			return projections.AuditFilter{}, invalid(name, "must be a time such as 2026-11-20T23:56:25.123Z")
		}
	}
	if !f.To.IsZero() && f.To.Before(f.From) {
		return projections.AuditFilter{}, invalid("to", "must not be earlier than from")
	}
	for name, values := range map[string]string{"actor": f.Actor, "action": f.Action} {
		list := strings.Split(values, ",")
		if len(list) > filterValues || len(list) > 1 && slices.Contains(list, "") {
			return projections.AuditFilter{}, invalid(name, fmt.Sprintf("must have up to %d values with commas in between", filterValues))
		}
	}
	return projections.AuditFilter{
		From: f.From, To: f.To, Actor: f.Actor, ActorType: f.ActorType, Action: f.Action, Target: f.Target, Q: f.Q,
	}, nil
}

type auditPageQuery struct {
	AuditFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"25"`
	Cursor string `query:"cursor" maxLength:"20" doc:"nextCursor of the page before."`
	After  string `query:"after" maxLength:"20" doc:"The number of a record, or 0: only the records after it, the oldest first. Not with cursor." example:"4182"`
	Total  bool   `query:"total" doc:"Whether the answer says how many records the filter leaves, on all pages."`
}

type auditAnswer struct {
	Body struct {
		Items      []AuditRecord `json:"items" nullable:"false"`
		NextCursor string        `json:"nextCursor,omitempty" doc:"Leads to older records; absent if there are none." example:"4157"`
		NextAfter  string        `json:"nextAfter,omitempty" doc:"With after: the after that leads to later records; absent if there are none yet." example:"4190"`
		Head       int64         `json:"head" doc:"The newest number in the workspace's log." example:"4182"`
		Total      *auditTotal   `json:"total,omitempty" doc:"Present if it was asked for."`
	}
}

// An auditTotal is how many records a filter leaves.
type auditTotal struct {
	Count int  `json:"count" example:"31"`
	Exact bool `json:"exact" doc:"false if there may be more: records that have to be searched for are counted up to 1,000, and 20,000 are looked through."`
}

// countedMost is up to how many records that are searched for are counted.
const countedMost = 1000

func (s *Server) listAudit(ctx context.Context, in *auditPageQuery) (*auditAnswer, error) {
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	q := projections.AuditQuery{Workspace: callerOf(ctx).workspace, Limit: in.Limit, AuditFilter: filter}
	if in.Cursor != "" {
		if q.Before, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || q.Before < 1 {
			return nil, invalid("cursor", "must be the nextCursor of an answer")
		}
	}
	page, next, err := s.auditPage(ctx, in, q)
	if err != nil {
		return nil, err
	}
	out := &auditAnswer{}
	if out.Body.Items, err = s.withFaces(ctx, page.Records); err != nil {
		return nil, err
	}
	if out.Body.Head = page.Head; in.After != "" {
		out.Body.NextAfter = next
	} else {
		out.Body.NextCursor = next
	}
	if in.Total {
		total := &auditTotal{}
		if total.Count, total.Exact, err = s.lists.Audit.Count(ctx, q.Workspace, filter, countedMost); err != nil {
			return nil, err
		}
		out.Body.Total = total
	}
	return out, nil
}

// auditPage reads a page in the order that is asked for. next leads on, unless it is empty.
func (s *Server) auditPage(
	ctx context.Context, in *auditPageQuery, q projections.AuditQuery,
) (page projections.AuditPage, next string, err error) {
	switch {
	case in.After == "":
		page, err = s.lists.Audit.Page(ctx, q)
	case in.Cursor != "":
		return page, "", invalid("after", "must be left out with cursor")
	default:
		after, wrong := strconv.ParseInt(in.After, 10, 64)
		if wrong != nil || after < 0 {
			return page, "", invalid("after", "must be the number of a record, or 0")
		}
		page, err = s.lists.Audit.PageAfter(ctx, q.Workspace, q.AuditFilter, after, q.Limit)
	}
	if page.Next > 0 {
		next = strconv.FormatInt(page.Next, 10)
	}
	return page, next, err
}

type auditPath struct {
	ID string `path:"id" maxLength:"64" doc:"The record's id."`
}

// A storedRecord is a record with the event as it is stored.
type storedRecord struct {
	AuditRecord
	Event storedEvent `json:"event"`
}

type storedEvent struct {
	Kind   string          `json:"kind" example:"member.role_changed"`
	Schema int             `json:"schema" doc:"The version of the form of its data."`
	Data   json.RawMessage `json:"data" doc:"What is stored, as it is stored." example:"{\"memberId\": \"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9\", \"email\": \"zoe@acme.example\", \"from\": \"Viewer\", \"to\": \"Maintainer\"}"`
}

type recordAnswer struct{ Body storedRecord }

var errNoRecord = fault.New(fault.NotFound, "audit_record_not_found", "There is no such record in the audit log.")

func (s *Server) getAuditRecord(ctx context.Context, in *auditPath) (*recordAnswer, error) {
	id, err := events.ParseID(in.ID)
	if err != nil {
		return nil, errNoRecord
	}
	found, ok, err := s.lists.Audit.Get(ctx, callerOf(ctx).workspace, id)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errNoRecord
	}
	shown, err := s.withFaces(ctx, []projections.AuditRecord{found})
	if err != nil {
		return nil, err
	}
	return &recordAnswer{storedRecord{shown[0], storedEvent{found.Event.Kind(), found.Schema, found.Data}}}, nil
}
