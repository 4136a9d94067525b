package runs

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
	"svc/events"
	"svc/fault"
	"svc/http/rest/schema"
	"svc/projections"
	"svc/projections/runviews"
)

func TestParseRepo(t *testing.T) {
	t.Parallel()
	web := events.RepoHost{
		Kind: events.HostGitHub, API: "https://api.github.com", Web: "https://github.com/acme/web", Clone: "https://github.com/acme/web.git",
	}
	ghe := events.RepoHost{
		Kind: events.HostGitHub, API: "https://ghe.acme.example/api/v3", Web: "https://ghe.acme.example/acme/web",
		Clone: "https://ghe.acme.example/acme/web.git",
	}
	gitea := func(below string) events.RepoHost {
		base := "https://code.acme.example" + below
		return events.RepoHost{Kind: events.HostGitea, API: base + "/api/v1", Web: base + "/acme/web", Clone: base + "/acme/web.git"}
	}
	git := events.RepoHost{Kind: events.HostGit, Clone: "https://git.acme.example/web.git"}
	for _, c := range []struct {
		kind          events.HostKind
		name, address string
		want          string
		host          events.RepoHost
	}{
		{"", "", "https://github.com/acme/web", "acme/web", web},
		{"", "", " https://github.com/acme/web.git ", "acme/web", web},
		{"", "", "github.com/acme/web/", "acme/web", web},
		{"", "", "https://GitHub.com:443/acme/web", "acme/web", web},
		{"github", "acme/web", "https://github.com/acme/web", "acme/web", web},
		{"github", "acme/web", "https://api.github.com", "acme/web", web},
		{"", "", "https://ghe.acme.example/acme/web", "acme/web", ghe},
		{"", "acme/web", "https://ghe.acme.example/api/v3/", "acme/web", ghe},
		{"gitea", "", "https://code.acme.example/acme/web", "acme/web", gitea("")},
		{"gitea", "acme/web", "https://code.acme.example/acme/web.git", "acme/web", gitea("")},
		{"gitea", "acme/web", "https://code.acme.example", "acme/web", gitea("")},
		{"gitea", "", "https://code.acme.example/git/acme/web", "acme/web", gitea("/git")},
		{"gitea", "acme/web", "https://code.acme.example/git/api/v1/", "acme/web", gitea("/git")},
		{"git", "", "https://git.acme.example/web.git", "web", git}, // which the aggregate refuses
		{"git", "acme/web", "https://git.acme.example/web.git", "acme/web", git},
	} {
		name, host, err := parseRepo(c.kind, c.name, c.address, false)
		require.NoError(t, err, c.address)
		require.Equal(t, c.want, name, c.address)
		require.Equal(t, c.host, host, c.address)
	}
	for _, address := range []string{
		"", "https://", "https://github.com", "https://github.com/acme", "https://github.com/acme/web/issues", "git@github.com:acme/web.git",
		"ssh://git@github.com/acme/web", "file:///etc", "https://a:b@github.com/acme/web", "https://github.com/acme/web?x",
		"https://github.com/acme/web#x",
		"http://github.com/acme/web", "https://localhost/acme/web", "https://a.localhost./acme/web", "https://127.0.0.1/acme/web",
		"https://[::1]/acme/web",
		"https://169.254.169.254/acme/web", "https://0.0.0.0/acme/web", "https://[::ffff:127.0.0.1]/acme/web",
		"https://[fe80::1]/acme/web", "https://%zz/a/b",
	} {
		_, _, err := parseRepo("", "", address, false)
		require.ErrorIs(t, err, fault.ErrValidation, address)
		require.Contains(t, fault.As(err).Details, "url", address)
	}
	for _, name := range []string{"web", "a/b/c"} {
		_, _, err := parseRepo("gitea", name, "https://code.acme.example", false)
		require.Contains(t, fault.As(err).Details, "name")
	}
	_, host, err := parseRepo("", "", "http://127.0.0.1:4010/acme/web", true)
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1:4010/api/v3", host.API)
}

// The API names every kind of host.
func TestKindsOfHosts(t *testing.T) {
	t.Parallel()
	for _, form := range []any{newRepo{}.Body, repoRuns{}, repoDetail{}} {
		kind, _ := reflect.TypeOf(form).FieldByName("Kind")
		require.Equal(t, strings.Join(events.HostKinds, ","), kind.Tag.Get("enum"), "%T", form)
	}
}

// What a host answers about its addresses is believed only at the same origin.
func TestSameSite(t *testing.T) {
	t.Parallel()
	const known = "https://github.com/acme/web.git"
	require.Equal(t, "https://github.com/acme/site.git", sameSite(known, "https://github.com/acme/site.git"))
	for _, found := range []string{"", "https://evil.example/acme/web.git", "http://github.com/acme/web.git",
		"https://x:y@github.com/acme/web.git",
		"https://github.com:8443/acme/web.git", "https://github.com.evil.example/a", "%"} {
		require.Equal(t, known, sameSite(known, found), found)
	}
}

func TestLinksOfConnectedRepos(t *testing.T) {
	t.Parallel()
	elsewhere := &CodeHost{"gitea", &url.URL{Scheme: "https", Host: "code.example"}}
	r := runviews.Run{Repo: schema.ExampleRepo.ID, RepoName: "acme/old", IssueNumber: 7, PRNumber: new(12)}
	at := func(kind events.HostKind, web string) *links {
		return elsewhere.linksAt(map[events.ID]projections.RepoSite{r.Repo: {ID: r.Repo, Kind: kind, Web: web}}, r)
	}
	require.Equal(t, &links{
		"https://ghe.example/acme/web/issues/7", "https://ghe.example/acme/web/pull/12", "https://ghe.example/acme/web/pull/12/files",
	}, at(events.HostGitHub, "https://ghe.example/acme/web"))
	require.Equal(t, "https://code.example/acme/web/pulls/12/files", at(events.HostGitea, "https://code.example/acme/web").Changes)
	require.Nil(t, at(events.HostGit, "https://git.example/acme/web"))
	require.Nil(t, at(events.HostGitHub, ""))
	require.Equal(t, "https://code.example/acme/old/issues/7", elsewhere.linksAt(nil, r).Issue, "it is not connected")
}

// Callers learn what they can do about a failed step, and no token that it was done with.
func TestEngineFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		status  int
		code    string
		message string
	}{
		{client.ErrKey, 503, "engine_unavailable", "The engine is not available right now."},
		{fmt.Errorf("%w: refused", client.ErrUnavailable), 503, "engine_unavailable", "The engine is not available right now."},
		{&client.Failure{Code: client.CodeStep}, 503, "engine_unavailable", "The engine is not available right now."},
		{errors.New("context deadline exceeded"), 503, "engine_unavailable", "The engine is not available right now."},
		{&client.Failure{Class: client.Transient, Code: client.CodeHostLimited, Message: "Wait\nfor secret-1."}, 503, "code_host_unavailable",
			"Wait for [credential]."},
		{&client.Failure{Class: client.Surroundings, Code: client.CodeCredential}, 409, "repo_credential_refused", errCredential.Message},
		{&client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository, Message: "There is no acme/web."}, 409, "code_host_refused",
			"There is no acme/web."},
		{&client.Failure{Class: client.Permanent, Code: client.CodeNoIssue}, 404, "issue_not_found", errNoIssue.Message},
	} {
		f := fault.As(engineFault(c.err, "secret-1", ""))
		require.NotNil(t, f, c.err)
		require.Equal(t, []any{c.status, c.code, c.message}, []any{f.Kind.Status(), f.Code, f.Message})
	}
}
