//go:build linux && !race

package run

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// secretsAreNowhere takes an issue to its merge with a secret of each kind, and requires that none of them is in
// an output, an answer, a row, or a file but those that have to hold it. The implementer writes its own wherever it can, and asks
// people a question first.
func secretsAreNowhere(t *testing.T, w *workshop) {
	const jobSecret = "opensesame-of-the-implementer"
	w.owner.expect(t, http.StatusNoContent, "PUT", w.api("/farm/secrets/MODEL_KEY"), map[string]string{"value": jobSecret})
	s := requires(`env; cat .git/config; grep -q deux words.txt`).byCommand(
		`echo "it is $MODEL_KEY"; env >$SVC_OUT/env
		if grep -q Because "$SVC_IN/task.json"; then
			sed -i s/two/deux/ words.txt
			echo '{"status":"done","summary":"'$MODEL_KEY'","commitMessage":"It is '$MODEL_KEY'"}' >$SVC_OUT/outcome.json
		else
			echo '{"status":"needs_fact","facts":[{"text":"Is it '$MODEL_KEY'?"}]}' >$SVC_OUT/outcome.json
		fi`)
	s["implementer"].(map[string]any)["secrets"] = []string{"MODEL_KEY"}
	p := w.newProject(t, "github", s)
	r := p.queue("Say deux", "Please.")
	require.Contains(t, r.awaitItem("fact_review").Question, "Is it ***?")
	r.answer("fact_review", "correct")
	r.approve()
	r.await("run.tidied")
	require.Equal(t, "merged", r.view().Run.Status)
	require.Contains(t, r.jobLog("implement", 1), "it is ***", "the job had the secret")
	require.Contains(t, p.show("main", "words.txt"), "deux")
	require.Contains(t, p.clone.git("log", "--format=%s", "origin/main"), "It is ***")

	secrets := map[string]string{
		"the host's token": hostToken, "the host's token for reading": hostReadToken, "the job's secret": jobSecret,
		"the engine's secret": "the-secret-that-both-services-share", "the master key": w.installation.secrets()["vaultMasterKey"],
	}
	var texts []string
	for _, path := range []string{
		"/runs/" + r.id, "/runs/" + r.id + "/events?limit=100", "/repos", "/repos/" + p.id, "/backlog?repo=" + p.id, "/inbox", "/audit?limit=100",
		"/farm/secrets", "/farm/jobs/" + r.jobs("implement")[0] + "/log", "/farm/jobs/" + r.jobs("test")[0] + "/log",
	} {
		texts = append(texts, string(w.owner.expect(t, http.StatusOK, "GET", w.api(path), nil).body))
	}
	folders := []string{w.artifacts, w.scratch, w.engineDir()}
	running := []*process{w.rest[0].process, w.rest[1].process, w.engine, w.host.process}
	for _, m := range w.machines {
		folders, running = append(folders, m.folder), append(running, m.process)
	}
	for _, p := range running {
		texts = append(texts, p.out.String())
	}
	texts = append(texts, p.clone.git("log", "-p", "--all"))
	c := w.connect()
	for name, secret := range secrets {
		for _, text := range texts {
			require.NotContains(t, text, secret, name)
		}
		requireNoFileHolds(t, secret, folders...)
		for _, row := range queryRows(t, c, `select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'`) {
			found := queryRows(t, c, fmt.Sprintf(
				`select 1 from %q t where strpos(t::text, $1) > 0 or strpos(t::text, encode($1::bytea, 'hex')) > 0`, row[0]), secret)
			require.Empty(t, found, "%s in %s", name, row[0])
		}
	}
}
