package farm

import (
	"context"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// jobsPerRunner is the number of finished jobs on the page of a runner.
const jobsPerRunner = 10

// runnerData is the content of the page of a runner.
type runnerData struct {
	Runner client.Runner
	Last   client.ListFarmJob // the last finished jobs
}

func showRunner(v *page.Visit) (page.Page, error) {
	var d runnerData
	id := v.PathValue("id")
	err := v.Load(func(ctx context.Context) (err error) {
		d.Runner, err = client.Decode[client.Runner](v.API.GetRunner(ctx, id, nil))
		return err
	}, func(ctx context.Context) (err error) {
		d.Last, err = client.Decode[client.ListFarmJob](v.API.ListJobs(ctx, &client.ListJobsParams{
			Status: client.Optional(client.ListJobsParamsStatusTerminal), Runner: &id, Limit: client.Optional(int64(jobsPerRunner)),
		}))
		return err
	})
	return page.Page{Title: d.Runner.Name, NavEntry: "farm", Main: runnerView(v, d)}, err
}

// fromRunner is the value of the form field "from" on the page of a runner.
const fromRunner = "runner"

// backToRunner makes a notice redirect to the page of the runner, if the form was posted
// there without scripts.
func backToRunner(v *page.Visit, n page.Notice) page.Notice {
	if v.PostFormValue("from") == fromRunner && !v.FromHTMX() {
		n.To = v.Path("farm", "runners", v.PathValue("id"))
	}
	return n
}

// showChanged shows the page whose form changed a runner.
func showChanged(v *page.Visit) (page.Page, error) {
	if v.PostFormValue("from") == fromRunner {
		return showRunner(v)
	}
	return show(v)
}

// certificateText describes the state of a runner's certificate; expired is true if it has
// expired, or will within a day while the runner is offline.
func certificateText(r client.Runner, now time.Time) (text string, expired bool) {
	switch left := r.CertifiedUntil.Sub(now); {
	case hasEnded(r):
		return "no longer accepted", false
	case left <= 0:
		return "expired " + kit.Ago(r.CertifiedUntil, now) + "; enroll the machine again", true
	case !isConnected(r):
		return "expires " + kit.Ago(r.CertifiedUntil, now) + " unless the runner connects before that", left < 24*time.Hour
	default:
		return "renews itself", false
	}
}
