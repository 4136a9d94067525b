package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
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
	var known struct{ Items []struct{ Name string } }
	if err := o.get(ctx, "/api/v1/repos", &known); err != nil {
		return err
	}
	for _, name := range demoRepos {
		if slices.ContainsFunc(known.Items, func(r struct{ Name string }) bool { return r.Name == name }) {
			continue // also one that somebody disconnected
		}
		s.say("connecting " + name)
		if err := s.connectRepo(ctx, o, name); err != nil {
			return err
		}
	}
	return o.post(ctx, "/api/auth/sign-out", map[string]string{}, nil) // leaves no session behind
}

// connectRepo connects a repository whose runs have to pass its test.sh.
func (s *stack) connectRepo(ctx context.Context, o *owner, name string) error {
	sandbox := "none"
	if slices.Contains(s.runner.Sandboxes, "bubblewrap") {
		sandbox = "bubblewrap"
	}
	type object = map[string]any
	err := o.post(ctx, "/api/v1/repos", object{
		"url": s.codeHostURL() + "/" + name, "credential": s.secrets.CodeHostToken, "readCredential": s.secrets.CodeHostReadToken,
		"settings": object{"mayAllowOnce": true, "requiredJobs": []object{{
			"name": "test", "steps": []object{{"name": "test", "run": "./test.sh"}}, "sandbox": object{"kind": sandbox}, "runSeconds": 300,
		}}},
	}, nil)
	if refused, ok := errors.AsType[*apiError](err); ok && refused.Status == http.StatusConflict && refused.Code == "repo_already_connected" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("connect %s: %w", name, err)
	}
	return nil
}
