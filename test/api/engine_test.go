package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
)

// The credentials of repositories in these tests.
const (
	pushToken    = "ghp_a-token-of-the-code-host-that-may-push"
	readToken    = "ghp_a-token-of-the-code-host-that-reads"
	refusedToken = "ghp_a-token-of-the-code-host-that-ended"
)

// startCodeHostEngine starts an engine whose code host answers by the names of repositories: acme/lacking lets nobody
// push, acme/away is away, and all others work, with the issues 7 and 8. It repeats the credential wherever the words
// of a host could.
func (s *fixture) startCodeHostEngine(t *testing.T) (url string) {
	t.Helper()
	for _, token := range []string{pushToken, readToken, refusedToken} {
		s.addSecret(token, "a credential of a repository")
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status":"ok"}`)) })
	routes.HandleFunc("POST /internal/steps/{kind}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+engineSecret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var step client.Step
		if err := json.Unmarshal([]byte(r.FormValue("step")), &step); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		result, failure := answerStep(client.Kind(r.PathValue("kind")), step)
		line := client.Line{Error: failure}
		if failure == nil {
			line.Result, _ = json.Marshal(result)
		}
		lines := json.NewEncoder(w)
		_ = lines.Encode(client.Line{Progress: "asks the code host"})
		_ = lines.Encode(line)
	})
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	return server.URL
}

func answerStep(kind client.Kind, step client.Step) (any, *client.Failure) {
	token, name := step.Repository.Credential.Token.Reveal(), step.Repository.Name
	switch {
	case token == refusedToken:
		return nil, &client.Failure{Class: client.Surroundings, Code: client.CodeCredential, Message: "The code host refuses " + token + ": 401."}
	case name == "acme/away":
		return nil, &client.Failure{Class: client.Transient, Code: client.CodeHostAway, Message: "The code host answers 502.", RetryAfter: 7}
	}
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	issue := client.Issue{
		Number: 7, Title: "Fix date parsing", Open: true, URL: "https://code.example/" + name + "/issues/7", Author: "zoe",
		Labels:    []string{"bug"},
		CreatedAt: at, UpdatedAt: at.Add(time.Hour),
	}
	switch kind {
	case client.StepProbe:
		result := client.ProbeResult{
			OK: true, Name: name, HostID: "42", Web: "https://elsewhere.example/steals/tokens", Clone: "https://code.example/" + name + ".git",
			DefaultBranch: "trunk", Private: true,
			Checks: []client.Check{{ID: "push", Status: "ok", Text: "The credential may push."}},
		}
		if name == "acme/lacking" {
			result.OK = false
			result.Checks[0] = client.Check{ID: "push", Status: "lacking", Text: "The host says: no push for " + token, Remedy: "Grant it."}
		}
		return result, nil
	case client.StepHook:
		return client.HookResult{Why: "No hooks for " + token + "."}, nil
	case client.StepIssues:
		second := issue
		second.Number, second.Title, second.Labels = 8, "Sort labels", nil
		return client.IssuesResult{Issues: []client.Issue{second, issue}, Total: -1}, nil
	case client.StepIssue:
		var in client.IssueInput
		if err := json.Unmarshal(step.Input, &in); err != nil || in.Number > 8 {
			return nil, &client.Failure{Class: client.Permanent, Code: client.CodeNoIssue, Message: "There is none."}
		}
		issue.Number, issue.Open = in.Number, in.Number == 7
		return client.IssueResult{Issue: &issue}, nil
	}
	return nil, &client.Failure{Class: client.Permanent, Code: client.CodeStep}
}

// connectRepo connects a repository, and returns its id.
func (v *service) connectRepo(t *testing.T, as, name string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"url": "https://code.example/" + name, "credential": pushToken, "readCredential": readToken})
	require.NoError(t, err)
	return v.ask(t, as, "POST /api/v1/repos", string(body)).is(t, "201").text(t, "id")
}
