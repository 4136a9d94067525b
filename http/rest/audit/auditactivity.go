package audit

import (
	"context"
	"slices"
	"strings"
	"time"

	"svc/events"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
	"svc/projections/auditlog"
)

func (s *Server) activityRoutes() door.Section {
	return door.Section{Tag: "Audit", Routes: []door.Route{
		door.Query(s.getAuditActivity, door.Route{
			Method: "GET", Path: "/audit/activity", Guard: door.MayDo(events.ReadAudit), Views: []string{"audit"},
			ID: "getAuditActivity", Summary: "Get audit activity",
			Text: "Returns the number of events of each day and the `seq` at which it ended, with marks for changes to people and access. " +
				"Use it to draw a timeline over `/audit/state`. To step through all events, use `GET /audit` with `after`.",
			AnswerExample: exampleActivity(),
		}),
	}}
}

type activityQuery struct {
	Range string `query:"range" enum:"7d,30d,90d" default:"30d" doc:"Number of UTC days, ending today."`
	Seq   int64  `query:"seq" minimum:"1" doc:"Also return the marked records nearest to this one, in any window." example:"4157"`
}

type activityAnswer struct{ Body activity }

type activity struct {
	Window         schema.Dates  `json:"window"`
	Head           int64         `json:"head" doc:"The newest seq of the workspace's log." example:"4182"`
	Events         int64         `json:"events" doc:"Number of events in the window." example:"311"`
	Days           []activeDay   `json:"days" nullable:"false" doc:"Each day of the window, in order."`
	Marks          []activeMark  `json:"marks" nullable:"false" doc:"Records of the category people, newest first, at most 500."`
	MarksTruncated bool          `json:"marksTruncated" doc:"Whether the window has earlier marks that are left out."`
	Around         []AuditRecord `json:"around" nullable:"false" doc:"With seq: the two marked records before it and the two after it, oldest first."`
	FirstSeq       int64         `json:"firstSeq" doc:"The seq of the window's first event; head + 1 if it has none." example:"3872"`
}

type activeDay struct {
	Date   string `json:"date" format:"date" example:"2026-11-21"`
	Events int64  `json:"events" example:"12"`
	UpTo   int64  `json:"upTo" doc:"The newest seq at the end of the day, for the seq of /audit/state; 0 before the first event." example:"4182"`
}

type activeMark struct {
	Seq    int64             `json:"seq" example:"4157"`
	At     openapi.Timestamp `json:"at"`
	Kind   string            `json:"kind" enum:"workspace,member,invitation,service_account,other,denied" doc:"The noun of the action, denied if it was refused."`
	Action string            `json:"action" example:"member.role_changed"`
}

// maxMarks bounds the marks of an answer.
const maxMarks = 500

// marked selects the records that have marks.
var marked = auditlog.AuditFilter{Category: events.People}

func (s *Server) getAuditActivity(ctx context.Context, in *activityQuery) (*activityAnswer, error) {
	workspace := door.CallerOf(ctx).Workspace
	from, days := schema.DaysOf(in.Range, s.Now())
	found, err := projections.History(s.Audit).Activity(ctx, workspace, from, days)
	if err != nil {
		return nil, err
	}
	page, err := s.Audit.Page(ctx, auditlog.AuditQuery{
		Workspace: workspace, Limit: maxMarks, AuditFilter: auditlog.AuditFilter{From: from, Category: marked.Category},
	})
	if err != nil {
		return nil, err
	}
	out := newActivity(found, page, from)
	if in.Seq > 0 {
		out.Around, err = s.marksAround(ctx, workspace, in.Seq)
	}
	return &activityAnswer{out}, err
}

// marksAround returns the two marked records before seq and the two after it, oldest first.
func (s *Server) marksAround(ctx context.Context, workspace events.ID, seq int64) ([]AuditRecord, error) {
	const each = 2
	before, err := s.Audit.Page(ctx, auditlog.AuditQuery{Workspace: workspace, Before: seq, Limit: each, AuditFilter: marked})
	if err != nil {
		return nil, err
	}
	after, err := s.Audit.PageAfter(ctx, workspace, marked, seq, each)
	if err != nil {
		return nil, err
	}
	slices.Reverse(before.Records)
	return s.withDisplayNames(ctx, append(before.Records, after.Records...))
}

func newActivity(a projections.Activity, page auditlog.AuditPage, from time.Time) activity {
	last := a.UpTo[len(a.UpTo)-1]
	out := activity{
		Window: schema.Dates{From: from.Format(time.DateOnly), To: from.AddDate(0, 0, len(a.UpTo)-1).Format(time.DateOnly)},
		Head:   a.Head, Events: last - a.Before, FirstSeq: a.Before + 1,
		Days: make([]activeDay, len(a.UpTo)), Marks: make([]activeMark, 0, len(page.Records)), MarksTruncated: page.Next > 0,
		Around: []AuditRecord{},
	}
	before := a.Before
	for i, upTo := range a.UpTo {
		out.Days[i] = activeDay{from.AddDate(0, 0, i).Format(time.DateOnly), upTo - before, upTo}
		before = upTo
	}
	for _, r := range page.Records {
		out.Marks = append(out.Marks, activeMark{r.Seq, openapi.FormatTime(r.At), markKind(r), r.Action})
	}
	return out
}

func markKind(r auditlog.AuditRecord) string {
	noun, _, _ := strings.Cut(r.Action, ".")
	switch {
	case r.Denied != "":
		return "denied"
	case slices.Contains([]string{"workspace", "member", "invitation", "service_account"}, noun):
		return noun
	}
	return "other"
}

func exampleActivity() activity {
	records := exampleRecords()
	head := newestExample().Seq
	slices.Reverse(records)
	return newActivity(projections.Activity{Head: head, UpTo: []int64{0, 1, 1, 2, 2, 3, head}},
		auditlog.AuditPage{Records: records}, time.Date(2026, time.November, 14, 0, 0, 0, 0, time.UTC))
}
