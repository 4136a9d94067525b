package rest

import (
	"context"
	"slices"
	"strings"
	"time"

	"svc/events"
	"svc/projections"
)

func (s *Server) activityRoutes() section {
	return section{tag: "Audit", routes: []route{
		query(s.getAuditActivity, route{
			method: "GET", path: "/audit/activity", guard: mayDo(events.ReadAudit), views: []string{"audit"},
			id: "getAuditActivity", summary: "When things happened",
			text: "How many events each day had, and where in the log it ends, with marks for what changed people and access: for a line of " +
				"time over `/audit/state`. The next event of any kind is `GET /audit` with `after`.",
			answered: exampleActivity(),
		}),
	}}
}

type activityQuery struct {
	Range string `query:"range" enum:"7d,30d,90d" default:"30d" doc:"So many whole UTC days, ending today."`
	Seq   int64  `query:"seq" minimum:"1" doc:"Also answer the records of marks nearest to this one, whenever they were." example:"4157"`
}

type activityAnswer struct{ Body activity }

type activity struct {
	Window         dates         `json:"window"`
	Head           int64         `json:"head" doc:"The newest number in the workspace's log." example:"4182"`
	Events         int64         `json:"events" doc:"Events of these days." example:"311"`
	Days           []activeDay   `json:"days" nullable:"false" doc:"Each day of the window, in order."`
	Marks          []activeMark  `json:"marks" nullable:"false" doc:"What was done to the workspace, its members, invitations and service accounts, or refused, the newest first, up to 500."`
	MarksTruncated bool          `json:"marksTruncated" doc:"Whether there were more marks, before those."`
	Around         []AuditRecord `json:"around" nullable:"false" doc:"With seq: the records of the two marks before it and the two after it, the oldest first."`
	FirstSeq       int64         `json:"firstSeq" doc:"The number of the first event of these days; above head if there is none." example:"3872"`
}

type activeDay struct {
	Date   string `json:"date" format:"date" example:"2026-11-21"`
	Events int64  `json:"events" example:"12"`
	UpTo   int64  `json:"upTo" doc:"The newest number by the end of the day: what /audit/state takes as seq, unless it is 0." example:"4182"`
}

type activeMark struct {
	Seq    int64     `json:"seq" example:"4157"`
	At     timestamp `json:"at"`
	Kind   string    `json:"kind" enum:"workspace,member,invitation,service_account,denied"`
	Action string    `json:"action" example:"member.role_changed"`
}

// markNouns are those whose events have marks, and marksMost is how many are answered.
const (
	markNouns = "workspace.*,member.*,invitation.*,service_account.*"
	marksMost = 500
)

func (s *Server) getAuditActivity(ctx context.Context, in *activityQuery) (*activityAnswer, error) {
	workspace, days := callerOf(ctx).workspace, insightDays[in.Range]
	from := s.now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days)
	found, err := projections.History(s.lists.Audit).Activity(ctx, workspace, from, days)
	if err != nil {
		return nil, err
	}
	page, err := s.lists.Audit.Page(ctx, projections.AuditQuery{
		Workspace: workspace, Limit: marksMost, AuditFilter: projections.AuditFilter{From: from, Action: markNouns},
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

// marksAround returns the records of marks nearest to a record.
func (s *Server) marksAround(ctx context.Context, workspace events.ID, seq int64) ([]AuditRecord, error) {
	const each = 2
	marked := projections.AuditFilter{Action: markNouns}
	before, err := s.lists.Audit.Page(ctx, projections.AuditQuery{Workspace: workspace, Before: seq, Limit: each, AuditFilter: marked})
	if err != nil {
		return nil, err
	}
	after, err := s.lists.Audit.PageAfter(ctx, workspace, marked, seq, each)
	if err != nil {
		return nil, err
	}
	slices.Reverse(before.Records)
	return s.withFaces(ctx, append(before.Records, after.Records...))
}

func newActivity(a projections.Activity, page projections.AuditPage, from time.Time) activity {
	last := a.UpTo[len(a.UpTo)-1]
	out := activity{
		Window: dates{from.Format(time.DateOnly), from.AddDate(0, 0, len(a.UpTo)-1).Format(time.DateOnly)},
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
		kind, _, _ := strings.Cut(r.Action, ".")
		if r.Denied != "" {
			kind = "denied"
		}
		out.Marks = append(out.Marks, activeMark{r.Seq, at(r.At), kind, r.Action})
	}
	return out
}

func exampleActivity() activity {
	records := exampleRecords()
	head := newestExample().Seq
	slices.Reverse(records)
	return newActivity(projections.Activity{Head: head, UpTo: []int64{0, 1, 1, 2, 2, 3, head}},
		projections.AuditPage{Records: records}, time.Date(2026, time.November, 14, 0, 0, 0, 0, time.UTC))
}
