package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wI2L/jsondiff"

	"svc/events"
	"svc/fault"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
	"svc/projections/auditlog"
)

// maxSteps bounds the events of a replay.
const maxSteps = 1000

type replayQuery struct {
	FromSeq int64 `query:"fromSeq" required:"true" minimum:"1" doc:"The seq of the first event to replay." example:"17"`
	ToSeq   int64 `query:"toSeq" required:"true" minimum:"1" doc:"The seq of the last event to replay, less than fromSeq + 1,000." example:"42"`
}

type replayAnswer struct {
	Body struct {
		Before WorkspaceState `json:"before"`
		Steps  []replayStep   `json:"steps" nullable:"false"`
		After  WorkspaceState `json:"after"`
		Head   int64          `json:"head" doc:"The newest seq of the workspace's log." example:"4182"`
	}
}

type replayStep struct {
	Seq     int64             `json:"seq"`
	At      openapi.Timestamp `json:"at"`
	Action  string            `json:"action" example:"member.role_changed"`
	Outcome string            `json:"outcome" enum:"success,denied"`
	Code    string            `json:"code,omitempty" doc:"The error code of a refused request; absent otherwise." example:"role_required"`
	Actor   schema.AuditActor `json:"actor"`
	Target  auditTarget       `json:"target" doc:"What the event is about."`
	Patch   []patchOperation  `json:"patch" nullable:"false" doc:"The event's change of the state as a JSON Patch (RFC 6902), including seq and at."`
}

type patchOperation struct {
	Op    string `json:"op" enum:"add,remove,replace"`
	Path  string `json:"path" example:"/members/3/role"`
	Value any    `json:"value" doc:"null for remove." example:"\"Maintainer\""`
}

func (s *Server) replayAudit(ctx context.Context, in *replayQuery) (*replayAnswer, error) {
	workspace := door.CallerOf(ctx).Workspace
	head, _, err := s.History.Head(ctx, workspace)
	switch {
	case err != nil:
		return nil, err
	case in.ToSeq < in.FromSeq:
		return nil, fault.Field("toSeq", "must not be less than fromSeq")
	case in.ToSeq-in.FromSeq >= maxSteps:
		return nil, fault.Field("toSeq", "must be less than 1,000 above fromSeq")
	case in.ToSeq > head:
		return nil, fault.Field("toSeq", "must not be beyond the newest record, %d", head)
	}
	if err := s.AcquireSlot(ctx, s.Bounds.Histories); err != nil {
		return nil, err
	}
	state := &projections.State{}
	if in.FromSeq > 1 {
		if state, err = s.History.At(ctx, workspace, in.FromSeq-1); err != nil {
			return nil, err
		}
	}
	records, err := s.History.Steps(ctx, workspace, in.FromSeq-1, in.ToSeq)
	if err != nil {
		return nil, err
	}
	out, err := replay(state, records)
	if err != nil {
		return nil, err
	}
	list, err := s.withDisplayNames(ctx, records)
	if err != nil {
		return nil, err
	}
	for i, r := range list {
		out.Body.Steps[i].Actor = r.Actor
	}
	out.Body.Head = head
	return out, nil
}

// replay applies records to state, and returns the patch of each.
func replay(state *projections.State, records []auditlog.AuditRecord) (*replayAnswer, error) {
	out := &replayAnswer{}
	out.Body.Before = newState(state)
	for i, r := range records {
		yield(i)
		changes, err := state.Apply(r.Record)
		if err != nil {
			return nil, err
		}
		patch, err := patchOf(r.Record, changes)
		if err != nil {
			return nil, err
		}
		a := newAuditRecord(r)
		out.Body.Steps = append(out.Body.Steps, replayStep{a.Seq, a.At, a.Action, a.Outcome, a.Code, a.Actor, a.Target, patch})
	}
	out.Body.After = newState(state)
	return out, nil
}

// patchOf returns the patch of a record. It compares only the rows that changed, so that a step
// costs the same in a workspace of any size.
func patchOf(r events.Record, changes []projections.StateChange) ([]patchOperation, error) {
	patch := []patchOperation{{"replace", "/seq", r.Seq}, {"replace", "/at", openapi.FormatTime(r.At)}}
	for _, c := range changes {
		path := fmt.Sprintf("/%s/%d", c.List, c.Index)
		before, after := stateRow(c.Before), stateRow(c.After)
		if c.List == projections.InWorkspace {
			path = "/" + string(c.List)
			if before == nil {
				before = stateWorkspace{}
			}
		}
		switch {
		case before == nil:
			patch = append(patch, patchOperation{"add", path, after})
			continue
		case after == nil:
			patch = append(patch, patchOperation{"remove", path, nil})
			continue
		}
		operations, err := diff(before, after)
		if err != nil {
			return nil, fmt.Errorf("compare %s of event %d: %w", path, r.Seq, err)
		}
		for _, o := range operations {
			patch = append(patch, patchOperation{o.Type, path + o.Path, o.Value})
		}
	}
	return patch, nil
}

func diff(before, after any) (jsondiff.Patch, error) {
	b, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	a, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return jsondiff.CompareJSON(b, a)
}
