package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wI2L/jsondiff"

	"svc/events"
	"svc/projections"
)

// maxSteps is how many events one replay goes through.
const maxSteps = 1000

type replayQuery struct {
	FromSeq int64 `query:"fromSeq" required:"true" minimum:"1" doc:"The first event that is replayed." example:"17"`
	ToSeq   int64 `query:"toSeq" required:"true" minimum:"1" doc:"The last one, at most 1,000 events on." example:"42"`
}

type replayAnswer struct {
	Body struct {
		Before WorkspaceState `json:"before"`
		Steps  []replayStep   `json:"steps" nullable:"false"`
		After  WorkspaceState `json:"after"`
		Head   int64          `json:"head" doc:"The newest number in the workspace's log." example:"4182"`
	}
}

type replayStep struct {
	Seq     int64            `json:"seq"`
	At      timestamp        `json:"at"`
	Action  string           `json:"action" example:"member.role_changed"`
	Outcome string           `json:"outcome" enum:"success,denied"`
	Code    string           `json:"code,omitempty" doc:"Of a denial: the code of the refusal." example:"role_required"`
	Actor   auditActor       `json:"actor"`
	Target  auditTarget      `json:"target" doc:"What it happened to, as far as the event says."`
	Patch   []patchOperation `json:"patch" nullable:"false" doc:"RFC 6902: what the event did to the state, its seq and at among it."`
}

type patchOperation struct {
	Op    string `json:"op" enum:"add,remove,replace"`
	Path  string `json:"path" example:"/members/3/role"`
	Value any    `json:"value" doc:"null of a remove." example:"\"Maintainer\""`
}

func (s *Server) replayAudit(ctx context.Context, in *replayQuery) (*replayAnswer, error) {
	workspace := callerOf(ctx).workspace
	head, _, err := s.views.History.Head(ctx, workspace)
	switch {
	case err != nil:
		return nil, err
	case in.ToSeq < in.FromSeq:
		return nil, invalid("toSeq", "must not be less than fromSeq")
	case in.ToSeq-in.FromSeq >= maxSteps:
		return nil, invalid("toSeq", "must be less than 1,000 above fromSeq")
	case in.ToSeq > head:
		return nil, invalid("toSeq", fmt.Sprintf("must not be beyond the newest record, %d", head))
	}
	if err := s.take(ctx, s.bounds.histories); err != nil {
		return nil, err
	}
	state := &projections.State{}
	if in.FromSeq > 1 {
		if state, err = s.views.History.At(ctx, workspace, in.FromSeq-1); err != nil {
			return nil, err
		}
	}
	records, err := s.views.History.Steps(ctx, workspace, in.FromSeq-1, in.ToSeq)
	if err != nil {
		return nil, err
	}
	out, err := replay(state, records)
	if err != nil {
		return nil, err
	}
	shown, err := s.withFaces(ctx, records)
	if err != nil {
		return nil, err
	}
	for i, r := range shown {
		out.Body.Steps[i].Actor = r.Actor
	}
	out.Body.Head = head
	return out, nil
}

// replay takes in records, one after the other, and tells what each did.
func replay(state *projections.State, records []projections.AuditRecord) (*replayAnswer, error) {
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
		told := newAuditRecord(r)
		out.Body.Steps = append(out.Body.Steps, replayStep{
			told.Seq, told.At, told.Action, told.Outcome, told.Code, told.Actor, told.Target, patch,
		})
	}
	out.Body.After = newState(state)
	return out, nil
}

// patchOf returns what a record did to the state. Only the rows that it touched
// are compared: a step costs the same in a workspace of any size.
func patchOf(r events.Record, changes []projections.StateChange) ([]patchOperation, error) {
	patch := []patchOperation{{"replace", "/seq", r.Seq}, {"replace", "/at", at(r.At)}}
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
		operations, err := difference(before, after)
		if err != nil {
			return nil, fmt.Errorf("compare %s of event %d: %w", path, r.Seq, err)
		}
		for _, o := range operations {
			patch = append(patch, patchOperation{o.Type, path + o.Path, o.Value})
		}
	}
	return patch, nil
}

func difference(before, after any) (jsondiff.Patch, error) {
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
