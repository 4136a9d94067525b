package hooks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"svc/dev/codehost/api"
	"svc/dev/codehost/record"
)

// A Request is one of GitHub's interface about the hooks of a repository. The caller stores the record.
type Request struct {
	*http.Request
	Record *record.Record
	At     string // address of the hooks
	Now    time.Time
}

// List lists the hooks.
func List(q Request) (int, any, error) {
	out := []api.Object{}
	for _, h := range q.Record.Hooks {
		out = append(out, q.show(h))
	}
	return http.StatusOK, out, nil
}

// Create makes a hook.
func Create(q Request) (int, any, error) {
	h := &record.Hook{ID: q.Record.NextID(), Active: true, Events: []string{"push"}, CreatedAt: q.Now}
	if err := q.change(h); err != nil {
		return 0, nil, err
	}
	same := func(other *record.Hook) bool { return other.URL == h.URL }
	if slices.ContainsFunc(q.Record.Hooks, same) {
		return 0, nil, api.InvalidWith(api.Object{"resource": "Hook", "code": "custom"}, "Hook already exists on this repository")
	}
	q.Record.Hooks = append(q.Record.Hooks, h)
	return http.StatusCreated, q.show(h), nil
}

// Change changes the hook in the path.
func Change(q Request) (int, any, error) {
	at := q.find()
	if at < 0 {
		return 0, nil, api.ErrNotFound
	}
	if err := q.change(q.Record.Hooks[at]); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, q.show(q.Record.Hooks[at]), nil
}

// Remove removes the hook in the path.
func Remove(q Request) (int, any, error) {
	at := q.find()
	if at < 0 {
		return 0, nil, api.ErrNotFound
	}
	q.Record.Hooks = slices.Delete(q.Record.Hooks, at, at+1)
	return http.StatusNoContent, nil, nil
}

// find returns the index of the hook in the path, -1 if there is none.
func (q Request) find() int {
	id, err := strconv.ParseInt(q.PathValue("hook"), 10, 64)
	if err != nil {
		return -1
	}
	return slices.IndexFunc(q.Record.Hooks, func(h *record.Hook) bool { return h.ID == id })
}

// change sets what the body says. A secret that it leaves out stays.
func (q Request) change(h *record.Hook) error {
	var in struct {
		Active *bool
		Events []string
		Config struct {
			URL, Secret string
		}
	}
	if err := json.NewDecoder(q.Body).Decode(&in); err != nil {
		return api.ErrBody
	}
	if in.Active != nil {
		h.Active = *in.Active
	}
	if in.Events != nil {
		h.Events = in.Events
	}
	if in.Config.URL != "" {
		h.URL = in.Config.URL
	}
	if in.Config.Secret != "" {
		h.Secret = in.Config.Secret
	}
	if u, err := url.Parse(h.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return api.Invalid("Hook", "url", "invalid", "")
	}
	return nil
}

func (q Request) show(h *record.Hook) api.Object {
	in, at := fmt.Sprintf("%s/%d", q.At, h.ID), h.CreatedAt.UTC().Format(time.RFC3339)
	return api.Object{
		"type": "Repository", "id": h.ID, "name": "web", "active": h.Active, "events": h.Events, "created_at": at, "updated_at": at,
		"config": api.Object{"url": h.URL, "content_type": "json", "insecure_ssl": "0", "secret": "********"},
		"url":    in, "test_url": in + "/test", "ping_url": in + "/pings", "deliveries_url": in + "/deliveries",
		"last_response": api.Object{"code": nil, "status": "unused", "message": nil},
	}
}
