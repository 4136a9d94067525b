package audit

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections/auditlog"
)

func (s *Server) auditRoutes() door.Section {
	return door.Section{Tag: "Audit", About: "The audit log of a workspace: who did what, and when.", Routes: []door.Route{
		door.Query(s.listAudit, door.Route{
			Method: "GET", Path: "/audit", Guard: door.MayDo(events.ReadAudit), Views: []string{"audit"},
			ID: "listAudit", Summary: "Search the audit log",
			Text: "Lists audit records, newest first. Each record is an event of the workspace's log; `seq` numbers them without gaps. " +
				"`nextCursor` leads to older records and is absent on the last page. With `after`, the records that follow are listed, " +
				"oldest first, and `nextAfter` leads to later ones. `head` is the newest `seq` of the log, whatever the filters.\n\n" +
				"A search by `q` or by several filters scans a bounded part of the log for a page. It may return fewer than `limit` records, or " +
				"none, with a `nextCursor` to continue.\n\n" +
				"Refused requests are recorded too: by each process the same refusal of a caller once a minute, on average at most 30 " +
				"refusals of a caller a minute, up to 60 in the first, and ten times as many of a workspace. The others " +
				"are not recorded.",
			AnswerExample: exampleAudit().Body,
		}),
		door.Query(s.getAuditRecord, door.Route{
			Method: "GET", Path: "/audit/{id}", Guard: door.MayDo(events.ReadAudit), Views: []string{"audit"},
			ID: "getAuditRecord", Summary: "Get a record",
			Text:          "Returns a record and the event as stored. 404 `audit_record_not_found` if the workspace has no such record.",
			Refuses:       []*fault.Fault{errNoRecord},
			AnswerExample: exampleStored(),
		}),
	}}
}

// An AuditRecord is an event of the audit log.
type AuditRecord struct {
	ID      string            `json:"id" format:"uuid"`
	Seq     int64             `json:"seq" doc:"The record's sequence number in the workspace's log, without gaps."`
	At      openapi.Timestamp `json:"at"`
	Action  string            `json:"action" example:"member.role_changed"`
	Outcome string            `json:"outcome" enum:"success,denied"`
	Code    string            `json:"code,omitempty" doc:"The error code of a refused request; absent otherwise." example:"role_required"`
	Actor   schema.AuditActor `json:"actor"`
	Target  auditTarget       `json:"target"`
	Changes []auditChange     `json:"changes" nullable:"false"`
	Context auditContext      `json:"context"`
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

func newAuditRecord(r auditlog.AuditRecord) AuditRecord {
	out := AuditRecord{
		ID: r.ID.String(), Seq: r.Seq, At: openapi.FormatTime(r.At), Action: r.Action, Outcome: "success", Code: r.Denied,
		Actor:   schema.AuditActor{Type: r.Actor.Type, ID: schema.IDOrEmpty(r.Actor.ID), Name: r.Actor.Name},
		Target:  auditTarget{r.Target.Type, schema.IDOrEmpty(r.Target.ID), r.Target.Name},
		Changes: make([]auditChange, 0, len(r.Changes)),
		Context: auditContext{r.Origin, r.IP, r.UserAgent, r.RequestID, r.TokenTail},
	}
	if r.Denied != "" {
		out.Outcome = "denied"
	}
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, auditChange{c.Field, formatIfTime(c.From), formatIfTime(c.To)})
	}
	return out
}

// formatIfTime returns a time as a Timestamp and any other value unchanged.
func formatIfTime(value any) any {
	if t, ok := value.(time.Time); ok {
		return openapi.FormatTime(t)
	}
	return value
}

// An AuditFilter narrows the records of the audit log.
type AuditFilter struct {
	From      openapi.OptionalTime `query:"from" doc:"Only records at or after this time." example:"2026-11-01T00:00:00Z"`
	To        openapi.OptionalTime `query:"to" doc:"Only records before this time." example:"2026-12-01T00:00:00Z"`
	Actor     string               `query:"actor" maxLength:"1000" doc:"Only records of these actors: up to ten names or ids, separated by commas. E-mail addresses and ids are not case-sensitive." example:"service:ci-bot"`
	ActorType events.ActorType     `query:"actorType" enum:"user,service,runner,system"`
	Category  events.Category      `query:"category" enum:"people,work" doc:"people: only records of who is in the workspace and may do what, and of what people decided or stopped. work: only records of how runs, jobs and machines get on."`
	Action    string               `query:"action" maxLength:"500" doc:"Only records of these actions: up to ten names or prefixes such as member.*, separated by commas." example:"member.*,service_account.*"`
	Target    string               `query:"target" maxLength:"200" doc:"Only records about the target of this name or id. E-mail addresses and ids are not case-sensitive." example:"acme/web#291"`
	Q         string               `query:"q" maxLength:"200" doc:"Only records whose action, actor name or target name contains this text, ignoring case and accents."`
}

// maxFilterValues bounds the comma-separated values of a filter field.
const maxFilterValues = 10

// filter checks what huma cannot.
func (f AuditFilter) filter() (auditlog.AuditFilter, error) {
	for name, at := range map[string]openapi.OptionalTime{"from": f.From, "to": f.To} {
		if err := checkYear(name, at); err != nil {
			return auditlog.AuditFilter{}, err
		}
	}
	if f.To.Sent && f.To.Time.Before(f.From.Time) {
		return auditlog.AuditFilter{}, fault.Field("to", "must not be earlier than from")
	}
	for name, values := range map[string]string{"actor": f.Actor, "action": f.Action} {
		list := strings.Split(values, ",")
		if len(list) > maxFilterValues || len(list) > 1 && slices.Contains(list, "") {
			return auditlog.AuditFilter{}, fault.Field(name, "must have at most %d comma-separated values", maxFilterValues)
		}
	}
	return auditlog.AuditFilter{
		From: f.From.Time, To: f.To.Time,
		Actor: f.Actor, ActorType: f.ActorType, Category: f.Category, Action: f.Action, Target: f.Target, Q: f.Q,
	}, nil
}

// checkYear refuses times that cannot be stored in the database, and those of year 1: the zero time is none.
func checkYear(name string, at openapi.OptionalTime) error {
	if year := at.Time.UTC().Year(); at.Sent && (year <= 1 || year > 9999) {
		return fault.Field(name, "must be a time such as 2026-11-20T23:56:25.123Z")
	}
	return nil
}

type auditPageQuery struct {
	AuditFilter
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"25"`
	Cursor string `query:"cursor" maxLength:"20" doc:"The nextCursor of the previous page."`
	After  string `query:"after" pattern:"^[0-9]{1,19}$" maxLength:"19" doc:"The seq of a record, or 0: only the records after it, oldest first. Not with cursor." example:"4182"`
	Total  bool   `query:"total" doc:"Whether to count the records that match, on all pages."`
}

type auditAnswer struct {
	Body struct {
		Items      []AuditRecord `json:"items" nullable:"false"`
		NextCursor string        `json:"nextCursor,omitempty" doc:"Cursor of the next page, of older records. Absent on the last page." example:"4157"`
		NextAfter  string        `json:"nextAfter,omitempty" doc:"With after: the value of after for later records. Absent if there are none yet." example:"4190"`
		Head       int64         `json:"head" doc:"The newest seq of the workspace's log." example:"4182"`
		Total      *auditTotal   `json:"total,omitempty" doc:"Present with total=true."`
	}
}

// An auditTotal is the number of records that match a filter.
type auditTotal struct {
	Count int  `json:"count" example:"31"`
	Exact bool `json:"exact" doc:"false if there may be more. A search counts up to 1,000 matches in the bounded part of the log that it scans."`
}

// maxCounted bounds the matches that a search counts.
const maxCounted = 1000

func (s *Server) listAudit(ctx context.Context, in *auditPageQuery) (*auditAnswer, error) {
	filter, err := in.filter()
	if err != nil {
		return nil, err
	}
	q := auditlog.AuditQuery{Workspace: door.CallerOf(ctx).Workspace, Limit: in.Limit, AuditFilter: filter}
	if in.Cursor != "" {
		if q.Before, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || q.Before < 1 {
			return nil, fault.Field("cursor", "must be the nextCursor of an answer")
		}
	}
	page, next, err := s.auditPage(ctx, in, q)
	if err != nil {
		return nil, err
	}
	out := &auditAnswer{}
	if out.Body.Items, err = s.withDisplayNames(ctx, page.Records); err != nil {
		return nil, err
	}
	if out.Body.Head = page.Head; in.After != "" {
		out.Body.NextAfter = next
	} else {
		out.Body.NextCursor = next
	}
	if in.Total {
		total := &auditTotal{}
		if total.Count, total.Exact, err = s.Audit.Count(ctx, q.Workspace, filter, maxCounted); err != nil {
			return nil, err
		}
		out.Body.Total = total
	}
	return out, nil
}

// auditPage reads a page: newest first or, with After, oldest first. next is the cursor of the
// page that follows, empty if there is none.
func (s *Server) auditPage(
	ctx context.Context, in *auditPageQuery, q auditlog.AuditQuery,
) (page auditlog.AuditPage, next string, err error) {
	switch {
	case in.After == "":
		page, err = s.Audit.Page(ctx, q)
	case in.Cursor != "":
		return page, "", fault.Field("after", "cannot be combined with cursor")
	default:
		after, wrong := strconv.ParseInt(in.After, 10, 64)
		if wrong != nil || after < 0 {
			return page, "", fault.Field("after", "must be the seq of a record, or 0")
		}
		page, err = s.Audit.PageAfter(ctx, q.Workspace, q.AuditFilter, after, q.Limit)
	}
	if page.Next > 0 {
		next = strconv.FormatInt(page.Next, 10)
	}
	return page, next, err
}

type auditPath struct {
	ID string `path:"id" maxLength:"64" doc:"The record's id."`
}

// A storedRecord is a record with its stored event.
type storedRecord struct {
	AuditRecord
	Event storedEvent `json:"event"`
}

type storedEvent struct {
	Kind   string          `json:"kind" example:"member.role_changed"`
	Schema int             `json:"schema" doc:"The schema version of data."`
	Data   json.RawMessage `json:"data" doc:"The event's data, exactly as stored." example:"{\"memberId\": \"019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9\", \"email\": \"zoe@acme.example\", \"from\": \"Viewer\", \"to\": \"Maintainer\"}"`
}

type recordAnswer struct{ Body storedRecord }

var errNoRecord = fault.New(fault.NotFound, "audit_record_not_found", "The audit log has no such record.")

func (s *Server) getAuditRecord(ctx context.Context, in *auditPath) (*recordAnswer, error) {
	found, err := door.FindInPath(ctx, in.ID, errNoRecord, s.Audit.Get)
	if err != nil {
		return nil, err
	}
	list, err := s.withDisplayNames(ctx, []auditlog.AuditRecord{found})
	if err != nil {
		return nil, err
	}
	return &recordAnswer{storedRecord{list[0], storedEvent{found.Event.Kind(), found.Schema, found.Data}}}, nil
}

// exampleRecords returns the first events of the example workspace.
func exampleRecords() (list []auditlog.AuditRecord) {
	n := byte(0)
	add := func(target events.Target, changes []events.Change, e events.Event, data string) {
		n++
		list = append(list, auditlog.AuditRecord{
			Record: events.Record{
				Workspace: schema.ExampleAcme.ID, Seq: int64(n), ID: schema.ExampleNo(20 + n), Stream: schema.ExampleAcme.ID, Version: int(n),
				Schema: 1,
				At:     schema.ExampleAt(9500 - 500*int(n)),
				Envelope: events.Envelope{Actor: schema.ExampleAda, Origin: events.FromAPI, IP: "203.0.113.7",
					UserAgent: "curl/8.14.1", RequestID: schema.ExampleID},
				Event: e, Data: []byte(data),
			},
			Action: e.Kind(), Target: target, Changes: changes,
		})
	}
	zoe := events.Target{Type: "member", ID: schema.ExampleZoe.ID, Name: schema.ExampleZoe.Email}
	add(events.Target{Type: "workspace", ID: schema.ExampleAcme.ID, Name: schema.ExampleAcme.Slug}, []events.Change{},
		events.WorkspaceCreated{Name: schema.ExampleAcme.Name, Slug: schema.ExampleAcme.Slug}, `{"name":"Acme","slug":"acme"}`)
	add(zoe, []events.Change{{Field: "role", To: events.Viewer}},
		events.MemberJoined{Member: schema.ExampleZoe.ID, User: schema.ExampleZoe.User, Email: schema.ExampleZoe.Email,
			Name: schema.ExampleZoe.Name, Role: events.Viewer},
		`{"memberId":"`+schema.ExampleZoe.ID.String()+`","userId":"`+schema.ExampleZoe.User.String()+
			`","email":"zoe@acme.example","role":"Viewer"}`)
	add(zoe, []events.Change{{Field: "role", From: events.Viewer, To: events.Maintainer}},
		events.MemberRoleChanged{Member: schema.ExampleZoe.ID, User: schema.ExampleZoe.User, Email: schema.ExampleZoe.Email,
			From: events.Viewer, To: events.Maintainer},
		`{"memberId":"`+schema.ExampleZoe.ID.String()+`","userId":"`+schema.ExampleZoe.User.String()+
			`","email":"zoe@acme.example","from":"Viewer","to":"Maintainer"}`)
	return list
}

func exampleAudit() *auditAnswer {
	newest := newestExample()
	out := &auditAnswer{}
	out.Body.Items, out.Body.NextCursor = []AuditRecord{newAuditRecord(newest)}, strconv.FormatInt(newest.Seq, 10)
	out.Body.Head, out.Body.Total = newest.Seq, &auditTotal{3, true}
	return out
}

func exampleStored() storedRecord {
	newest := newestExample()
	return storedRecord{newAuditRecord(newest), storedEvent{newest.Event.Kind(), newest.Schema, newest.Data}}
}

func newestExample() auditlog.AuditRecord {
	list := exampleRecords()
	return list[len(list)-1]
}

// withDisplayNames returns the answers' form of records, with the current names and pictures of actors
// that are people.
func (s *Server) withDisplayNames(ctx context.Context, records []auditlog.AuditRecord) ([]AuditRecord, error) {
	list, stored := make([]AuditRecord, len(records)), make([]events.Record, len(records))
	for i, r := range records {
		list[i], stored[i] = newAuditRecord(r), r.Record
	}
	profiles, err := s.ActorProfiles(ctx, stored)
	if err != nil {
		return nil, err
	}
	for i, r := range records {
		p := profiles[r.Actor.ID]
		list[i].Actor.DisplayName, list[i].Actor.AvatarURL = p.Name, p.AvatarURL
	}
	return list, nil
}
