//go:build linux && !race

package run

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hear has the code host tell the service of what changes in the project's repository, until deaf is called. The address
// that the service gave it is that of the web app, which these tests do not start.
func (p *project) hear() (deaf func()) {
	p.t.Helper()
	var list []struct {
		ID     int64
		Config struct{ URL string }
	}
	hooks := "/repos/" + p.name + "/hooks"
	p.host.ask(p.t, http.StatusOK, "GET", hooks, nil, &list)
	require.Len(p.t, list, 1, "the service has set up its hook")
	_, path, _ := strings.Cut(strings.TrimPrefix(list[0].Config.URL, "http://"), "/")
	change := func(url string) {
		p.host.ask(p.t, http.StatusOK, "PATCH", fmt.Sprint(hooks, "/", list[0].ID), map[string]any{"config": map[string]string{"url": url}}, nil)
	}
	change(p.rest[1].url() + "/" + path)
	return func() { change(list[0].Config.URL) }
}

// hooksAreHints has a person push to the branch of a run. The other tests of this workshop hear of nothing: all of what is
// delivered to them is lost.
func hooksAreHints(t *testing.T, w *workshop) {
	p := w.newProject(t, "github", requires("sh check.sh"))
	deaf := p.hear()
	r := p.queue("Say deux", patchOf("two", "deux"))
	r.awaitItem("merge_approval")
	for n := range 3 {
		r.pushByPerson(map[string]string{"more.txt": fmt.Sprint(n)})
		pushed := time.Now()
		r.await("run.commits_pushed", n+2)
		took := time.Since(pushed)
		t.Logf("the run shows a push after %s", took)
		require.Less(t, took, 10*time.Second, "the watcher looks later")
	}
	a := w.owner.expect(t, http.StatusOK, "GET", w.api("/repos/"+p.id), nil)
	deliveries := decode[struct {
		Hook struct {
			Deliveries []struct {
				Event    string
				Accepted bool
			}
		}
	}](t, a).Hook.Deliveries
	require.NotEmpty(t, deliveries)
	for _, d := range deliveries {
		require.True(t, d.Accepted, d.Event)
	}
	deaf()
	w.owner.expect(t, http.StatusNoContent, "DELETE", w.api("/repos/"+p.id+"?name="+p.name), nil)
	var left []any
	p.host.ask(t, http.StatusOK, "GET", "/repos/"+p.name+"/hooks", nil, &left)
	require.Empty(t, left)
}

// label gives an issue a label, by the form of the code host's page.
func (p *project) label(as string, issue int, label string) {
	p.t.Helper()
	form := strings.NewReader("as=" + as + "&action=label&label=" + label)
	q, err := http.NewRequestWithContext(p.t.Context(), "POST", fmt.Sprintf("%s/%s/issues/%d", p.host.url, p.name, issue), form)
	require.NoError(p.t, err)
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	a, err := http.DefaultClient.Do(q)
	require.NoError(p.t, err)
	require.NoError(p.t, a.Body.Close())
	require.Less(p.t, a.StatusCode, http.StatusBadRequest)
}

// runsOf returns the ids of the runs of an issue.
func (p *project) runsOf(issue int) (ids []string) {
	p.t.Helper()
	rows, err := p.pool.Query(p.t.Context(), `select stream::text from events where kind = 'run.queued'
		and workspace_id = (select workspace_id from workspaces where slug = 'acme')
		and data::jsonb -> 'repo' ->> 'id' = $1 and data::jsonb ->> 'issueNumber' = $2`, p.id, fmt.Sprint(issue))
	require.NoError(p.t, err)
	defer rows.Close()
	for rows.Next() {
		var id string
		require.NoError(p.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	return ids
}

// labelsQueue gives issues labels. What counts is the permission of who does, as the code host has it.
func labelsQueue(t *testing.T, w *workshop) {
	p := w.newProject(t, "github", settings{"label": "svc"})
	p.hear()
	p.host.ask(t, http.StatusNoContent, "PUT", "/repos/"+p.name+"/collaborators/ada", nil, nil)
	own, stranger, commented := p.issue("Own", "x"), p.issue("A stranger's", "x"), p.issue("Commented", "x")
	wanted := p.issue("Say deux", patchOf("two", "deux"))
	p.host.ask(t, http.StatusOK, "PATCH", fmt.Sprintf("/repos/%s/issues/%d", p.name, own), map[string]any{"labels": []string{"svc"}}, nil)
	p.label("ben", stranger, "svc")
	p.host.ask(t, http.StatusCreated, "POST", fmt.Sprintf("/repos/%s/issues/%d/comments", p.name, commented),
		map[string]string{"body": "Please add the label svc. /svc queue"}, nil)
	p.label("ada", commented, "another")
	p.label("ada", wanted, "svc")
	require.Eventually(t, func() bool { return len(p.runsOf(wanted)) == 1 }, waitLimit, 100*time.Millisecond)
	r := &loopRun{p, p.runsOf(wanted)[0], wanted}
	require.Equal(t, "ada", r.await("run.queued")["label"].(map[string]any)["by"])
	r.approve()
	r.await("run.tidied")
	again := p.issue("Another", patchOf("one", "un"))
	p.label("ada", again, "svc")
	require.Eventually(t, func() bool { return len(p.runsOf(again)) == 1 }, waitLimit, 100*time.Millisecond)
	require.Len(t, p.runsOf(wanted), 1, "once for the label")
	for _, issue := range []int{own, stranger, commented} {
		require.Empty(t, p.runsOf(issue))
	}
}
