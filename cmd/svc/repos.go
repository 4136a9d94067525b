package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"svc/fault"
)

// demoRepos are the repositories of the code host that are connected to the first workspace of the demonstration. Its
// history is of others, which nobody connected.
var demoRepos = []string{"acme/handbook", "acme/hello", "acme/units"}

// connectTimeout is how long a start waits for the repositories.
const connectTimeout = 20 * time.Second

// joinDemo has the first person of the demonstration connect the repositories that the workspace does not know yet. The
// service runs without them, too.
func (s *stack) joinDemo(ctx context.Context, d demo) {
	if len(d.People) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := s.connectRepos(limited, d.People[0]); err != nil && ctx.Err() == nil {
		s.log.Warn("not all repositories of the demonstration are connected", "why", err)
	}
}

func (s *stack) connectRepos(ctx context.Context, by person) error {
	o, err := signInAs(ctx, s.restURL(), by)
	if err != nil {
		return err
	}
	var runners struct{ Items []registeredRunner }
	if err := o.get(ctx, "/api/v1/farm/runners", &runners); err != nil {
		return err
	}
	for _, r := range runners.Items {
		if r.Name == s.runner.Name {
			s.runner.Sandboxes = r.Sandboxes
		}
	}
	var known struct{ Items []knownRepo }
	if err := o.get(ctx, "/api/v1/repos", &known); err != nil {
		return err
	}
	for _, name := range demoRepos {
		if err := s.connectOnce(ctx, o, name, known.Items); err != nil {
			return err
		}
	}
	return o.post(ctx, "/api/auth/sign-out", map[string]string{}, nil) // leaves no session behind
}

// A knownRepo is a repository that the workspace knows.
type knownRepo struct{ ID, Name, Status, WebURL string }

// connectOnce connects a repository, unless it is or was connected. It disconnects what was at another address of the
// code host.
func (s *stack) connectOnce(ctx context.Context, o *owner, name string, known []knownRepo) error {
	place := s.codeHostURL() + "/" + name
	if slices.ContainsFunc(known, func(r knownRepo) bool { return r.WebURL == place }) {
		return nil
	}
	for _, r := range known {
		if r.Name == name && r.Status != "disconnected" && strings.HasPrefix(r.WebURL, "http://") {
			if err := o.send(ctx, http.MethodDelete, "/api/v1/repos/"+r.ID+"?name="+url.QueryEscape(name), http.NoBody, nil); err != nil {
				return fmt.Errorf("disconnect %s: %w", name, err)
			}
		}
	}
	s.say("connecting " + name)
	return s.connectRepo(ctx, o, place)
}

// connectRepo connects a repository whose runs have to pass its test.sh.
func (s *stack) connectRepo(ctx context.Context, o *owner, place string) error {
	sandbox := "none"
	if slices.Contains(s.runner.Sandboxes, "bubblewrap") {
		sandbox = "bubblewrap"
	}
	type object = map[string]any
	err := o.post(ctx, "/api/v1/repos", object{
		"url": place, "credential": s.secrets.CodeHostToken, "readCredential": s.secrets.CodeHostReadToken,
		"settings": object{"mayAllowOnce": true, "requiredJobs": []object{{
			"name": "test", "steps": []object{{"name": "test", "run": "./test.sh"}}, "sandbox": object{"kind": sandbox}, "runSeconds": 300,
		}}},
	}, nil)
	if refused, ok := errors.AsType[*apiError](err); ok && refused.Status == http.StatusConflict && refused.Code == "repo_already_connected" {
		return nil
	}
	return fault.Wrap(err, "connect %s", place)
}
