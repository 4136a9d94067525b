//go:build linux && !race

package run

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// agents has the tests of implementers that are away or stand still.
func agents(t *testing.T, w *workshop) {
	w.runAll(t, map[string]func(*testing.T, *workshop){
		"R3 an implementer that prints nothing": idleImplementer,
		"R6 an implementer without its model":   modelAway,
		"R35 runs of an issue share its budget": issueBudget,
		"the same failure twice":                sameFailure,
		"an implementer does more stages":       allStages,
		"R29 a change that was there before":    sameChange,
	})
}

// idleImplementer is one that prints nothing and does not end. It is ended, which counts as no round.
func idleImplementer(t *testing.T, w *workshop) {
	s := settings{"rounds": 1}.byCommand("exec sleep 600")
	s["implementer"].(map[string]any)["idleSeconds"] = 1
	r := w.newProject(t, "github", s).queue("Do it", "Please.")
	require.Equal(t, "The implementer printed nothing for 1 second, and was stopped.", r.awaitWait("implementer"))
	ended := r.await("run.job_settled")
	require.Equal(t, []string{"timed_out", "idle"}, []string{ended.text("status"), ended.text("reason")})
	require.NotContains(t, kindsOf(r.events()), "run.stage_failed")
	r.cancel()
	r.await("run.tidied")
}

// modelAway has three runs whose model is away. The third failure in a row pauses the repository; once somebody resumes it,
// all runs go on in the same round.
func modelAway(t *testing.T, w *workshop) {
	begin, back := w.newGate(t), filepath.Join(t.TempDir(), "back")
	p := w.newProject(t, "github", settings{"rounds": 1}.byCommand(begin.waits()+`
		if test -e '`+back+`'; then date +%N >words.txt; status=done; else status=unavailable; fi
		echo "{\"status\":\"$status\",\"summary\":\"The model answers 429.\",\"cost\":{\"cents\":0}}" >"$SVC_OUT/outcome.json"`))
	var runs []*loopRun
	for n := range 3 {
		runs = append(runs, p.queue(fmt.Sprintf("Do it %d", n), "Please."))
	}
	for _, r := range runs {
		r.awaitRunning("implement")
	}
	begin.open()
	for _, r := range runs {
		require.Equal(t, "The implementer was not available 3 times in a row. The model answers 429.", r.awaitWait("paused"))
		require.NotContains(t, kindsOf(r.events()), "run.stage_failed")
	}
	require.NoError(t, os.WriteFile(back, nil, 0o600))
	p.owner.expect(t, http.StatusOK, "POST", p.api("/repos/"+p.id+"/resume"), nil)
	for _, r := range runs {
		r.awaitItem("merge_approval")
		require.Len(t, r.jobs("implement"), 2)
		r.cancel()
	}
}

// sameFailure changes something in each round, and a required job fails each time in the same way.
func sameFailure(t *testing.T, w *workshop) {
	s := requires(`echo "$(date +%N) FAIL /tmp/x.$$: want 4"; exit 1`).byCommand(`date +%N >words.txt; ` + done)
	s["rounds"] = 9
	r := w.newProject(t, "github", s).queue("Do it", "Please.")
	failed := r.await("run.failed")
	require.Equal(t, "same_failure", failed.text("code"), failed.text("reason"))
	require.Len(t, r.jobs("implement"), 2)
	r.await("run.tidied")
}

const done = `echo '{"status":"done","summary":"So.","cost":{"cents":0}}' >"$SVC_OUT/outcome.json"`

// sameChange goes back and forth between two changes. The required job fails in another way each time.
func sameChange(t *testing.T, w *workshop) {
	s := requires(`tr -dc a-z </dev/urandom | head -c 20; exit 1`).byCommand(
		`if grep -q deux words.txt; then echo zwei >words.txt; else echo deux >words.txt; fi; ` + done)
	s["rounds"] = 9
	r := w.newProject(t, "github", s).queue("Do it", "Please.")
	failed := r.await("run.failed")
	require.Equal(t, "no_change", failed.text("code"))
	require.Contains(t, failed.text("reason"), "the same as that of round 1")
	require.Len(t, r.jobs("implement"), 3)
	require.Len(t, r.jobs("test"), 2, "what was built is not built again")
	r.await("run.tidied")
}

// issueBudget has an implementer that never gets it right, and spends 40 cents or what it may each time. When the issue is tried
// again, nothing is left of its budget.
func issueBudget(t *testing.T, w *workshop) {
	s := requires(`tr -dc a-z </dev/urandom | head -c 20; exit 1`).byCommand(`date +%N >words.txt
		left=$(sed -n 's/.*"cents":\([0-9]*\).*/\1/p' "$SVC_IN/task.json")
		if test "$left" -gt 40; then left=40; fi
		echo '{"status":"done","cost":{"cents":'$left'}}' >"$SVC_OUT/outcome.json"`)
	s["issueCents"], s["rounds"] = 100, 3
	p := w.newProject(t, "github", s)
	first := p.queue("Do it", "Please.")
	first.await("run.tidied")
	require.Len(t, first.jobs("implement"), 3)
	a := p.owner.expect(t, http.StatusCreated, "POST", p.api("/runs/"+first.id+"/retry"), nil)
	second := &loopRun{p, decode[struct{ ID string }](t, a).ID, first.issue}
	failed := second.await("run.failed")
	require.Equal(t, "budget", failed.text("code"))
	require.Contains(t, failed.text("reason"), "The budget of 100 cents for all runs of the issue is used.")
	require.Empty(t, second.jobs("implement"))
	spent := 0.0
	for n := range 9 {
		if cost := first.await("run.cost_recorded", n+1); cost.text("source") == "model" {
			spent += cost["cents"].(float64)
		}
	}
	require.LessOrEqual(t, spent, 100.0)
	require.Greater(t, spent, 80.0)
}

// allStages has an implementer that analyzes, plans and reviews, too. It does not let its first change pass.
func allStages(t *testing.T, w *workshop) {
	s := requires("sh check.sh").byCommand(`
		stage=$(sed -n 's/.*"stage":"\([a-z]*\)".*/\1/p' "$SVC_IN/task.json") more=
		case $stage in
		analyze) more=',"facts":[{"text":"It is about words.txt.","sure":true}]' ;;
		plan) more=',"plan":{"summary":"Say deux.","steps":["Write it"],"files":["words.txt"],"risk":"low"}' ;;
		implement) printf "one\nzwei\nthree\n" >words.txt ;;
		fix) printf "one\ndeux\nthree\n" >words.txt ;;
		review) severity=note; grep -q deux words.txt || severity=blocking
			more=',"findings":[{"severity":"'$severity'","path":"words.txt","line":2,"text":"Seen."}]' ;;
		esac
		echo '{"status":"done","cost":{"cents":1}'"$more"'}' >"$SVC_OUT/outcome.json"`)
	s["implementer"].(map[string]any)["stages"] = []string{"analyze", "plan", "review"}
	r := w.newProject(t, "github", s).queue("Do it", "Please.")
	require.Contains(t, r.await("run.facts_recorded")["facts"], "It is about words.txt.")
	require.Equal(t, "Say deux.", r.await("run.plan_recorded").text("summary"))
	require.Equal(t, "blocking", r.await("run.reviewed").text("verdict"))
	require.Contains(t, r.await("run.stage_failed").text("reason"), "words.txt:2: Seen.")
	passed := r.await("run.reviewed", 2)
	require.Equal(t, "pass", passed.text("verdict"))
	require.Contains(t, passed["findings"], "words.txt:2: Seen.")
	r.approve()
	r.await("run.tidied")
	require.Equal(t, "one\ndeux\nthree", r.show("main", "words.txt"))
}
