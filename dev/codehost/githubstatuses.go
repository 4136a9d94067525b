package codehost

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"svc/dev/codehost/api"
	"svc/dev/codehost/counts"
	"svc/dev/codehost/record"
)

// resolve returns the commit that a path names.
func (v *visit) resolve(ref string) (string, error) {
	id, err := v.repo.Bare.Resolve(v.Context(), strings.TrimPrefix(ref, "heads/"))
	return id, missing(err, &api.Error{Status: http.StatusUnprocessableEntity, Message: "No commit found for SHA: " + ref})
}

// status returns a status as lists have it.
func (v *visit) status(s *record.Status) object {
	return object{
		"id": s.ID, "node_id": api.NodeID("StatusContext", s.ID), "url": v.in("/statuses/%s", s.Commit), "state": s.State, "context": s.Context,
		"description": api.TextOrNull(s.Description), "target_url": api.TextOrNull(s.TargetURL),
		"avatar_url": api.Base(v.Request) + "/avatars/" + s.Author,
		"created_at": api.Stamp(s.CreatedAt), "updated_at": api.Stamp(s.CreatedAt),
	}
}

func listStatuses(v *visit) (int, any, error) {
	id, err := v.resolve(v.PathValue("ref"))
	if err != nil {
		return 0, nil, err
	}
	list := []object{}
	for _, s := range slices.Backward(v.repo.Statuses) {
		if s.Commit == id {
			out := v.status(s)
			out["creator"] = v.user(s.Author)
			list = append(list, out)
		}
	}
	return http.StatusOK, api.Page(v.head, v.Request, list), nil
}

func createStatus(v *visit) (int, any, error) {
	var in struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}
	if err := v.read(&in); err != nil {
		return 0, nil, err
	}
	id, err := v.resolve(v.PathValue("sha"))
	switch {
	case err != nil:
		return 0, nil, err
	case !slices.Contains([]string{"error", "failure", "pending", "success"}, in.State):
		return 0, nil, &api.Error{Status: http.StatusUnprocessableEntity,
			Message: fmt.Sprintf("Validation Failed: State is not included in the list: %q", in.State)}
	case len(in.Description) > 140:
		return 0, nil, api.Invalid("Status", "description", "custom", "description is too long (maximum is 140 characters)")
	}
	s := &record.Status{
		ID: v.repo.NextID(), Commit: id, State: in.State, Context: cmp.Or(in.Context, "default"), Description: in.Description,
		TargetURL: in.TargetURL, Author: v.who.login, CreatedAt: v.h.now(),
	}
	v.repo.Statuses = append(v.repo.Statuses, s)
	v.h.counts.Add(v.repo.Name, func(c *counts.Effects) { c.Statuses++ })
	out := v.status(s)
	out["creator"] = v.user(s.Author)
	return http.StatusCreated, out, v.repo.Save()
}
