//go:build linux && !race

package run

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// revokedCredential has the code host refuse the credential while a run is approved. The repository is paused with the
// host's words, and the run goes on once the credential works again and somebody resumes.
func revokedCredential(t *testing.T, w *workshop) {
	p := w.newProjectAt(t, newCodeHost(t), "revoked", "github", settings{})
	r := p.queue("Say deux", patchOf("two", "deux"))
	r.awaitItem("merge_approval")
	p.host.process.kill()
	p.host.start("SVC_CODEHOST_TOKEN=another-token-that-may-write")
	r.approve()
	require.Contains(t, r.awaitWait("paused"), "credential")
	repo := decode[struct {
		Status string
		Pause  struct{ Code string }
	}](t, p.owner.expect(t, http.StatusOK, "GET", p.api("/repos/"+p.id), nil))
	require.Equal(t, "paused", repo.Status)
	require.Equal(t, "credential", repo.Pause.Code)
	p.owner.expect(t, http.StatusOK, "POST", p.api("/repos/"+p.id+"/credential"),
		map[string]string{"which": "write", "credential": "another-token-that-may-write"})
	r.await("run.tidied")
	require.Equal(t, "merged", r.view().Run.Status, "a credential that works ends the pause")
}

// disconnectedRepository is disconnected while a run waits for approval. The run waits, and can be cancelled.
func disconnectedRepository(t *testing.T, w *workshop) {
	p := w.newProject(t, "github", settings{})
	r := p.queue("Say deux", patchOf("two", "deux"))
	r.awaitItem("merge_approval")
	p.owner.expect(t, http.StatusNoContent, "DELETE", p.api("/repos/"+p.id+"?name="+p.name), nil)
	r.approve()
	require.Contains(t, r.awaitWait("disconnected"), "disconnected")
	r.cancel()
	require.Equal(t, "left", r.await("run.tidied").text("branch"), "nobody may touch it any more")
	require.Zero(t, p.host.counts(t, p.name).Merges)
}

// removedMember removes the person who queued an issue. The run is the workspace's, and goes on.
func removedMember(t *testing.T, w *workshop) {
	p := w.newProject(t, "github", settings{})
	for _, person := range w.installation.dev().People {
		if person.Role != "Maintainer" || person.WorkspaceSlug != "acme" {
			continue
		}
		maintainer := signIn(t, w.rest[0].url(), person)
		number := p.issue("Say deux", patchOf("two", "deux"))
		a := maintainer.expect(t, http.StatusCreated, "POST", p.api("/backlog/queue"), map[string]any{"repoId": p.id, "issueNumber": number})
		r := &loopRun{p, decode[struct{ ID string }](t, a).ID, number}
		list := decode[struct{ Items []struct{ ID, Email string } }](t, w.owner.expect(t, http.StatusOK, "GET", p.api("/members?limit=100"), nil))
		for _, m := range list.Items {
			if m.Email == person.Email {
				w.owner.expect(t, http.StatusNoContent, "DELETE", p.api("/members/"+m.ID), nil)
			}
		}
		maintainer.expect(t, http.StatusNotFound, "GET", p.api("/runs/"+r.id), nil)
		r.approve()
		r.await("run.tidied")
		require.Equal(t, "merged", r.view().Run.Status)
		return
	}
	require.Fail(t, "the demonstration has no Maintainer")
}
