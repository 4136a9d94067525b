//go:build linux && !race

package run

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A loopRun is a run of an issue of a project.
type loopRun struct {
	*project
	id    string
	issue int
}

// events returns the events of the run's stream. While PostgreSQL is down there are none.
func (r *loopRun) events() []entry {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), `select seq, kind, stream::text, coalesce(meta->>'requestId', ''), data::text
		from events where workspace_id = (select workspace_id from workspaces where slug = 'acme') and stream = $1 order by version`, r.id)
	if err != nil {
		return nil
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		return nil
	}
	return list
}

// await waits for the n-th event of a kind, the first if n is left out, and decodes what it says.
func (r *loopRun) await(kind string, n ...int) fact {
	r.t.Helper()
	var found fact
	want := append(n, 1)[0]
	require.Eventually(r.t, func() bool {
		seen := 0
		for _, e := range r.events() {
			if e.Kind == kind {
				seen++
			}
			if seen == want {
				found = fact{}
				require.NoError(r.t, json.Unmarshal(e.Data, &found))
				return true
			}
		}
		return false
	}, waitLimit, 100*time.Millisecond, "%d. %s of %s: %v", want, kind, r.id, r)
	return found
}

// A fact is what an event says.
type fact map[string]any

func (f fact) text(name string) string {
	s, _ := f[name].(string)
	return s
}

// String tells what has happened to the run, for failed tests.
func (r *loopRun) String() (text string) {
	for _, e := range r.events() {
		text += "\n" + e.Kind + " " + string(e.Data[:min(len(e.Data), 300)])
	}
	return text
}

// An item is one of the inbox.
type item struct {
	ID, KindID, Question, RunID string
	Subject                     struct{ HeadSHA string }
	Evidence                    struct {
		Guardrails string
		Findings   []struct{ Path, Rule string }
	}
}

// awaitItem waits until the inbox has a decision of a kind about the run.
func (r *loopRun) awaitItem(kind string) (found item) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		a, err := r.owner.send("GET", r.api("/inbox?limit=100"), nil)
		if err != nil || a.status != http.StatusOK {
			return false
		}
		list := decode[struct{ Items []item }](r.t, a).Items
		at := slices.IndexFunc(list, func(i item) bool { return i.RunID == r.id && i.KindID == kind })
		if at >= 0 {
			found = list[at]
		}
		return at >= 0
	}, waitLimit, 100*time.Millisecond, "no %s of %s: %v", kind, r.id, r)
	return found
}

// answer answers a decision of a kind about the run.
func (r *loopRun) answer(kind, action string) {
	r.t.Helper()
	i := r.awaitItem(kind)
	r.owner.expect(r.t, http.StatusOK, "POST", r.api("/inbox/"+i.ID+"/answer"),
		map[string]string{"action": action, "expectedHead": i.Subject.HeadSHA, "note": "Because."})
}

func (r *loopRun) approve() {
	r.t.Helper()
	r.answer("merge_approval", "approve_and_merge")
}

// A runView is the run as the API shows it.
type runView struct {
	Run struct {
		Status string
		Wait   *struct{ Code, Detail string }
	}
	Resources struct{ CostCents int64 }
	End       *runEnd
	Merge     struct{ Untested bool }
}

type runEnd struct{ Reason, Code string }

// view returns the run as of its newest event.
func (r *loopRun) view() runView {
	r.t.Helper()
	var newest int64
	for _, e := range r.events() {
		newest = e.Seq
	}
	a := r.owner.expect(r.t, http.StatusOK, "GET", r.api("/runs/"+r.id), nil, "X-Svc-Min-Position", strconv.FormatInt(newest, 10))
	return decode[runView](r.t, a)
}

// audit returns the actions of the audit log about the run, oldest first, without those of waiting.
func (r *loopRun) audit() []string {
	r.t.Helper()
	var list []string
	for cursor := ""; ; {
		a := r.owner.expect(r.t, http.StatusOK, "GET", r.api("/audit?limit=100&target="+r.id+cursor), nil)
		page := decode[struct {
			Items      []struct{ Action string }
			NextCursor string
		}](r.t, a)
		for _, i := range page.Items {
			list = append(list, i.Action)
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	slices.Reverse(list)
	return without(without(list, "run.waiting"), "run.estimated")
}

// requireInsights requires that the insights of the repository count the run, its only one, as merged without more help than the
// approval, at a cost in cents.
func (r *loopRun) requireInsights(cents int64) {
	r.t.Helper()
	type kpi struct {
		Key    string
		Value  *float64
		Sample int
	}
	want := map[string]float64{
		"autonomous_merge_rate": 100, "merged_untouched_rate": 100, "cost_per_merged_pr": float64(cents), "human_interventions": 0,
	}
	require.EventuallyWithT(r.t, func(c *assert.CollectT) {
		a := r.owner.expect(r.t, http.StatusOK, "GET", r.api("/insights?range=7d&repo="+r.project.id), nil)
		for _, k := range decode[struct{ KPIs []kpi }](r.t, a).KPIs {
			if value, ok := want[k.Key]; ok {
				assert.Equal(c, &value, k.Value, k.Key)
			} else if assert.NotNil(c, k.Value, k.Key) {
				assert.Positive(c, *k.Value, k.Key)
			}
			assert.Equal(c, map[bool]int{false: 1}[k.Key == "human_interventions"], k.Sample, k.Key)
		}
	}, waitLimit, 100*time.Millisecond)
}

// requireCosts requires that the view of the run counts what its events say, and its jobs among that. It returns the cents.
func (r *loopRun) requireCosts(rounds int) (cents int64) {
	r.t.Helper()
	sources := map[string]int{}
	for _, e := range r.events() {
		if e.Kind == "run.cost_recorded" {
			var cost struct {
				Cents  int64
				Source string
			}
			require.NoError(r.t, json.Unmarshal(e.Data, &cost))
			cents += cost.Cents
			sources[cost.Source]++
		}
	}
	want := map[string]int{"farm": 1}
	if rounds > 1 {
		want = map[string]int{"farm": 2 * rounds, "model": rounds}
	}
	require.Equal(r.t, want, sources)
	require.Eventually(r.t, func() bool { return r.view().Resources.CostCents == cents }, waitLimit, 50*time.Millisecond)
	return cents
}

// jobs returns the ids of the run's jobs of a name, in their order.
func (r *loopRun) jobs(name string) (ids []string) {
	for _, e := range r.events() {
		var job struct{ JobID, Name string }
		if e.Kind == "run.job_requested" && json.Unmarshal(e.Data, &job) == nil && job.Name == name {
			ids = append(ids, job.JobID)
		}
	}
	return ids
}

// jobLog returns what the n-th job of a name printed.
func (r *loopRun) jobLog(name string, n int) string {
	r.t.Helper()
	return string(r.owner.expect(r.t, http.StatusOK, "GET", r.api("/farm/jobs/"+r.jobs(name)[n-1]+"/log"), nil).body)
}

// at returns when an event of a kind was recorded last.
func (r *loopRun) at(kind string) (at time.Time) {
	r.t.Helper()
	err := r.pool.QueryRow(r.t.Context(), `select max(at) from events
		where workspace_id = (select workspace_id from workspaces where slug = 'acme') and stream = $1 and kind = $2`, r.id, kind).Scan(&at)
	require.NoError(r.t, err)
	return at
}

// A pull is a pull request of the code host.
type pull struct {
	Number int
	State  string
	Head   struct{ Ref string }
}

// pulls returns the pull requests of the run's branch, open or not.
func (r *loopRun) pulls() []pull {
	r.t.Helper()
	var list []pull
	r.host.ask(r.t, http.StatusOK, "GET", "/repos/"+r.name+"/pulls?state=all&per_page=100", nil, &list)
	return slices.DeleteFunc(list, func(p pull) bool { return p.Head.Ref != "run/"+r.id })
}

// pushByPerson adds a commit to the run's branch, and returns it.
func (r *loopRun) pushByPerson(files map[string]string) string {
	r.t.Helper()
	r.clone.git("fetch", "-q", "origin")
	r.clone.git("checkout", "-q", "origin/run/"+r.id)
	return r.clone.push("run/"+r.id, files)
}

// look has the service look at the run's branch, as the watcher does now and then.
func (r *loopRun) look() {
	r.t.Helper()
	_, err := r.pool.Exec(r.t.Context(), `update run_steps set look = true, due_at = now()
		where workspace_id = (select workspace_id from workspaces where slug = 'acme') and run_id = $1`, r.id)
	require.NoError(r.t, err)
}

// cancel cancels the run.
func (r *loopRun) cancel() {
	r.t.Helper()
	r.owner.expect(r.t, http.StatusAccepted, "POST", r.api("/runs/"+r.id+"/cancel"), map[string]string{"reason": "No."})
}

// liveJobs counts the run's jobs that have not ended.
func (r *loopRun) liveJobs() int {
	r.t.Helper()
	n, err := r.jobsIn("queued", "leased", "running", "cancelling")
	require.NoError(r.t, err)
	return n
}

// jobsIn counts the run's jobs in some states.
func (r *loopRun) jobsIn(states ...string) (n int, err error) {
	ids := append(r.jobs("implement"), r.jobs("test")...)
	err = r.pool.QueryRow(r.t.Context(), `select count(*) from jobs
		where workspace_id = (select workspace_id from workspaces where slug = 'acme') and job_id = any($1::text[]::uuid[])
			and state = any($2)`, ids, states).Scan(&n)
	return n, err
}

// awaitWait waits until the run says that it waits for something, and returns the sentence.
func (r *loopRun) awaitWait(code string) (detail string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		w := r.view().Run.Wait
		if w == nil || w.Code != code {
			return false
		}
		detail = w.Detail
		return true
	}, waitLimit, 100*time.Millisecond, "it does not wait for %s: %v", code, r)
	return detail
}

// requireEstimates requires that the run was estimated each time that more was known of it, and that numbers have their runs.
func (r *loopRun) requireEstimates(planned bool) {
	r.t.Helper()
	list := decode[struct {
		Estimates []struct {
			When              string
			Size              string
			CostCents, WorkMS *struct{ P50, P80 int64 }
			Merged            int
			Runs              []string
		}
	}](r.t, r.owner.expect(r.t, http.StatusOK, "GET", r.api("/runs/"+r.id), nil)).Estimates
	var moments []string
	for _, e := range list {
		moments = append(moments, e.When)
		require.NotContains(r.t, e.Runs, r.id)
		require.LessOrEqual(r.t, e.Merged, len(e.Runs))
		require.Equal(r.t, e.Merged >= 5, e.WorkMS != nil, "%+v", e)
		require.True(r.t, e.CostCents == nil || len(e.Runs) >= 5 && e.CostCents.P50 <= e.CostCents.P80, "%+v", e)
	}
	want := []string{"queued", "planned", "pushed"}
	if !planned {
		want = slices.Delete(want, 1, 2)
	}
	require.Equal(r.t, want, moments)
	require.Equal(r.t, "small", list[len(list)-1].Size)
}
