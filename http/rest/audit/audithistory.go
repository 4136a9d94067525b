package audit

import (
	"context"
	"time"

	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/projections"
)

func (s *Server) historyRoutes() door.Section {
	state := &projections.State{}
	replayed, err := replay(state, exampleRecords())
	if err != nil {
		panic(err) // the example records are valid
	}
	replayed.Body.Head = newestExample().Seq
	return door.Section{Tag: "Audit", Routes: []door.Route{
		door.Query(s.getAuditState, door.Route{
			Method: "GET", Path: "/audit/state", Guard: door.MayDo(events.ExportAudit),
			ID: "getAuditState", Summary: "Get a past state of the workspace",
			Text: "Returns the workspace's name, members, invitations and service accounts after an event (`seq`) or at a time (`at`), " +
				"computed from the events. 409 `event_unreadable` if an event cannot be applied, 409 `state_too_large` if there " +
				"were more than 100,000 members, invitations and service accounts.",
			Refuses:       []*fault.Fault{projections.ErrUnreadable, projections.ErrStateTooLarge},
			AnswerExample: stateBody{newState(state), newestExample().Seq},
			OwnSlot:       true,
		}),
		door.Query(s.replayAudit, door.Route{
			Method: "GET", Path: "/audit/replay", Guard: door.MayDo(events.ExportAudit),
			ID: "replayAudit", Summary: "Replay events",
			Text: "Returns how each event from `fromSeq` to `toSeq` changed the state of `/audit/state`, as JSON Patches (RFC 6902). " +
				"Applied in order to `before`, they produce `after`.",
			Refuses:       []*fault.Fault{projections.ErrUnreadable, projections.ErrStateTooLarge},
			AnswerExample: replayed.Body,
			OwnSlot:       true,
		}),
	}}
}

// A WorkspaceState is a workspace as it was after one of its events.
type WorkspaceState struct {
	Seq             int64                 `json:"seq" doc:"The seq of the last event included; 0 before the first."`
	At              *openapi.Timestamp    `json:"at" nullable:"true" doc:"When that event happened."`
	Workspace       stateWorkspace        `json:"workspace"`
	Members         []stateMember         `json:"members" nullable:"false"`
	Invitations     []stateInvitation     `json:"invitations" nullable:"false"`
	ServiceAccounts []stateServiceAccount `json:"serviceAccounts" nullable:"false"`
}

type stateWorkspace struct {
	Name string `json:"name" doc:"Empty until the workspace was created." example:"Acme"`
	Slug string `json:"slug" example:"acme"`
}

type stateMember struct {
	ID              string            `json:"id" format:"uuid"`
	UserID          string            `json:"userId" format:"uuid"`
	Name            string            `json:"name" doc:"Their name at that time; empty if the log does not contain it." example:"Bob Meyer"`
	Email           string            `json:"email" example:"bob@example.com"`
	Role            string            `json:"role" enum:"Owner,Maintainer,Viewer,member"`
	CanApproveLoops bool              `json:"canApproveLoops"`
	JoinedAt        openapi.Timestamp `json:"joinedAt"`
}

type stateInvitation struct {
	ID        string            `json:"id" format:"uuid"`
	Email     string            `json:"email" example:"nora@example.com"`
	Role      string            `json:"role" enum:"Owner,Maintainer,Viewer"`
	Status    string            `json:"status" enum:"pending,accepted,rejected,revoked" doc:"A pending invitation has expired if expiresAt has passed."`
	InvitedBy string            `json:"invitedBy" example:"ada@acme.example"`
	CreatedAt openapi.Timestamp `json:"createdAt"`
	ExpiresAt openapi.Timestamp `json:"expiresAt"`
}

type stateServiceAccount struct {
	ID        string             `json:"id" format:"uuid"`
	Name      string             `json:"name" example:"ci-bot"`
	Scopes    []events.Scope     `json:"scopes" nullable:"false" enum:"api.read,farm.submit"`
	TokenTail string             `json:"tokenTail" example:"x9Qa"`
	Status    string             `json:"status" enum:"active,revoked"`
	CreatedBy string             `json:"createdBy" example:"ada@acme.example"`
	CreatedAt openapi.Timestamp  `json:"createdAt"`
	RotatedAt *openapi.Timestamp `json:"rotatedAt" nullable:"true"`
	RevokedAt *openapi.Timestamp `json:"revokedAt" nullable:"true"`
}

// stateRow returns the answer's form of a row, nil for nil.
func stateRow(row any) any {
	switch r := row.(type) {
	case projections.Workspace:
		return stateWorkspace{r.Name, r.Slug}
	case projections.Member:
		may := events.MayApproveLoops(r.Role, r.ApproveLoops)
		return stateMember{r.ID.String(), r.User.String(), r.Name, r.Email, string(r.Role), may, openapi.FormatTime(r.JoinedAt)}
	case projections.Invitation:
		return stateInvitation{
			r.ID.String(), r.Email, string(r.Role), r.Status, r.InviterName, openapi.FormatTime(r.SentAt), openapi.FormatTime(r.ExpiresAt),
		}
	case projections.ServiceAccount:
		return stateServiceAccount{
			r.ID.String(), r.Name, append([]events.Scope{}, r.Scopes...), r.Tail, r.Status, r.CreatedBy,
			openapi.FormatTime(r.CreatedAt), openapi.FormatOptionalTime(r.RotatedAt), openapi.FormatOptionalTime(r.RevokedAt),
		}
	}
	return nil
}

func newState(s *projections.State) WorkspaceState {
	out := WorkspaceState{Seq: s.Seq,
		Members: stateRows[stateMember](s.Members()), Invitations: stateRows[stateInvitation](s.Invitations()),
		ServiceAccounts: stateRows[stateServiceAccount](s.ServiceAccounts()),
	}
	if s.Seq > 0 {
		out.At = openapi.FormatOptionalTime(&s.At)
	}
	if w, ok := s.Workspace(); ok {
		out.Workspace = stateWorkspace{w.Name, w.Slug}
	}
	return out
}

func stateRows[S, R any](rows []R) []S {
	list := make([]S, len(rows))
	for i, r := range rows {
		list[i] = stateRow(r).(S)
	}
	return list
}

type stateQuery struct {
	At  openapi.OptionalTime `query:"at" doc:"Return the state at this time. A time without digits finer than milliseconds, as answers have, includes its whole millisecond." example:"2026-11-20T12:00:00Z"`
	Seq int64                `query:"seq" minimum:"1" doc:"Return the state after this event." example:"4182"`
}

type stateAnswer struct{ Body stateBody }

type stateBody struct {
	WorkspaceState
	Head int64 `json:"head" doc:"The newest seq of the workspace's log." example:"4182"`
}

func (s *Server) getAuditState(ctx context.Context, in *stateQuery) (*stateAnswer, error) {
	workspace := door.CallerOf(ctx).Workspace
	head, _, err := s.History.Head(ctx, workspace)
	seq := in.Seq
	switch {
	case err != nil:
		return nil, err
	case in.At.Sent == (in.Seq != 0):
		return nil, fault.Field("seq", "give either seq or at, not both")
	case checkYear("at", in.At) != nil:
		return nil, checkYear("at", in.At)
	case in.Seq > head:
		return nil, fault.Field("seq", "must not be beyond the newest record, %d", head)
	case in.At.Time.After(s.Now()):
		return nil, fault.Field("at", "must not be in the future")
	case in.At.Sent:
		if seq, err = s.History.SeqAt(ctx, workspace, endOfMillisecond(in.At.Time), head); err != nil {
			return nil, err
		}
		if seq == 0 {
			return nil, fault.Field("at", "must not be before the first record")
		}
	}
	if err := s.AcquireSlot(ctx, s.Bounds.Histories); err != nil {
		return nil, err
	}
	state, err := s.History.At(ctx, workspace, seq)
	if err != nil {
		return nil, err
	}
	return &stateAnswer{stateBody{newState(state), head}}, nil
}

// endOfMillisecond returns the last time stored that answers print as at. A time that is given more
// precisely is returned as it is.
func endOfMillisecond(at time.Time) time.Time {
	if !at.Truncate(time.Millisecond).Equal(at) {
		return at
	}
	return at.Add(time.Millisecond - time.Microsecond)
}
