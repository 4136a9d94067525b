package rest

import (
	"context"
	"strconv"
	"time"

	"svc/events"
	"svc/projections"
)

type auditRecord struct {
	ID      string        `json:"id" format:"uuid"`
	Seq     int64         `json:"seq" doc:"The record's number in the workspace's log: no number is missing."`
	At      timestamp     `json:"at"`
	Action  string        `json:"action" example:"member.role_changed"`
	Outcome string        `json:"outcome" enum:"success,denied"`
	Code    string        `json:"code,omitempty" doc:"Of a denial: the code of the refusal."`
	Actor   auditActor    `json:"actor"`
	Target  auditTarget   `json:"target"`
	Changes []auditChange `json:"changes" nullable:"false"`
	Context auditContext  `json:"context"`
}

type auditActor struct {
	Type events.ActorType `json:"type" enum:"user,service,runner,system"`
	ID   string           `json:"id"`
	Name string           `json:"name" example:"service:ci-bot"`
}

type auditTarget struct {
	Type string `json:"type" example:"member"`
	ID   string `json:"id"`
	Name string `json:"name" example:"bob@example.com"`
}

type auditChange struct {
	Field string `json:"field" example:"role"`
	From  any    `json:"from"`
	To    any    `json:"to"`
}

type auditContext struct {
	Origin    events.Origin `json:"origin" enum:"ui,api,auth,farm,cli,system"`
	IP        string        `json:"ip"`
	UserAgent string        `json:"userAgent"`
	RequestID string        `json:"requestId"`
	TokenTail string        `json:"tokenTail"`
}

func newAuditRecord(r projections.AuditRecord) auditRecord {
	out := auditRecord{
		ID: r.ID.String(), Seq: r.Seq, At: timestamp(r.At), Action: r.Action, Outcome: "success", Code: r.Denied,
		Actor:   auditActor{r.Actor.Type, shown(r.Actor.ID), r.Actor.Name},
		Target:  auditTarget{r.Target.Type, shown(r.Target.ID), r.Target.Name},
		Changes: []auditChange{},
		Context: auditContext{r.Origin, r.IP, r.UserAgent, r.RequestID, r.TokenTail},
	}
	if r.Denied != "" {
		out.Outcome = "denied"
	}
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, auditChange(c))
	}
	return out
}

func shown(id events.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

type auditQuery struct {
	From      time.Time        `query:"from" doc:"Only records of this time or later."`
	To        time.Time        `query:"to" doc:"Only records of an earlier time than this."`
	Actor     string           `query:"actor" maxLength:"200" doc:"Only records of the actor of this name or id."`
	ActorType events.ActorType `query:"actorType" enum:"user,service,runner,system"`
	Action    string           `query:"action" maxLength:"100" doc:"Only records of this action, or of all that begin as in member.*" example:"member.*"`
	Target    string           `query:"target" maxLength:"200" doc:"Only records about the target of this name or id."`
	Q         string           `query:"q" maxLength:"200" doc:"Only records that have this in their action, actor or target."`
	Limit     int              `query:"limit" minimum:"1" maximum:"100" default:"25"`
	Cursor    string           `query:"cursor" maxLength:"20" doc:"nextCursor of the page before."`
}

type auditAnswer struct {
	Body struct {
		Items      []auditRecord `json:"items" nullable:"false"`
		NextCursor string        `json:"nextCursor,omitempty"`
	}
}

func (s *Server) listAudit(ctx context.Context, in *auditQuery) (*auditAnswer, error) {
	q := projections.AuditQuery{
		Workspace: callerOf(ctx).workspace, From: in.From, To: in.To, Actor: in.Actor, ActorType: in.ActorType,
		Action: in.Action, Target: in.Target, Q: in.Q, Limit: in.Limit + 1, // one more tells whether there is a next page
	}
	if in.Cursor != "" {
		before, err := strconv.ParseInt(in.Cursor, 10, 64)
		if err != nil || before < 1 {
			return nil, invalid("cursor", "must be the nextCursor of an answer")
		}
		q.Before = before
	}
	found, err := s.Audit.Page(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &auditAnswer{}
	out.Body.Items = []auditRecord{}
	for i, r := range found {
		if i == in.Limit {
			out.Body.NextCursor = strconv.FormatInt(found[i-1].Seq, 10)
			break
		}
		out.Body.Items = append(out.Body.Items, newAuditRecord(r))
	}
	return out, nil
}
