//go:build linux && !race

package run

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWrongEngineSecretIsSaid starts an engine with another secret. The service is ready, what needs the engine says so, and
// runs go on once it is mended.
func TestWrongEngineSecretIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, 1)
	p := w.newProject(t, "github", settings{})
	number := p.issue("Say deux", patchOf("two", "deux"))
	w.engine.kill()
	w.startEngine("SVC_ENGINE_SHARED_SECRET=another-secret-than-that-of-rest")
	requireReady(t, w.rest[0].url())
	const away = "The engine is not available right now."
	for _, a := range []answer{
		w.owner.expect(t, http.StatusServiceUnavailable, "GET", w.api("/backlog?repo="+p.id), nil),
		w.owner.expect(t, http.StatusServiceUnavailable, "POST", w.api("/repos"),
			map[string]any{"url": w.host.url + "/acme/web", "credential": hostToken}),
	} {
		require.Equal(t, "engine_unavailable", a.code())
		require.Contains(t, string(a.body), away)
	}
	r := p.queueIssue(map[string]any{"repoId": p.id, "issueNumber": number, "title": "Say deux"})
	require.Equal(t, away, r.awaitWait("engine_away"))
	w.engine.kill()
	w.startEngine()
	r.approve()
	r.await("run.tidied")
	require.Equal(t, "merged", r.view().Run.Status)
}
