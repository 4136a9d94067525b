package farm

import (
	"context"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// perRunner is how many jobs the page of a runner shows.
const perRunner = 10

// oneRunner is what the page of a runner shows.
type oneRunner struct {
	Runner client.Runner
	Last   client.ListFarmJob // its last jobs that have ended
}

func showRunner(v *page.Visit) (page.Page, error) {
	var o oneRunner
	id := v.PathValue("id")
	err := v.Load(func(ctx context.Context) (err error) {
		o.Runner, err = client.Read[client.Runner](v.API.GetRunner(ctx, id, nil))
		return err
	}, func(ctx context.Context) (err error) {
		o.Last, err = client.Read[client.ListFarmJob](v.API.ListJobs(ctx, &client.ListJobsParams{
			Status: client.ListJobsParamsStatusTerminal, Runner: &id, Limit: client.Optional(int64(perRunner)),
		}))
		return err
	})
	return page.Page{Title: o.Runner.Name, NavEntry: "farm", Main: runnerView(v, o)}, err
}

// fromRunner is the value of the field from of a form on the page of a runner.
const fromRunner = "runner"

// back leads to the page of the runner whoever has changed it there without scripts.
func back(v *page.Visit, n page.Notice) page.Notice {
	if v.PostFormValue("from") == fromRunner && !v.FromHTMX() {
		n.To = v.Path("farm", "runners", v.PathValue("id"))
	}
	return n
}

// showChanged shows the page on which a runner was changed.
func showChanged(v *page.Visit) (page.Page, error) {
	if v.PostFormValue("from") == fromRunner {
		return showRunner(v)
	}
	return show(v)
}

// certificate says until when a runner may connect; expired is true if that is over, or soon.
func certificate(r client.Runner, now time.Time) (text string, expired bool) {
	switch left := r.CertifiedUntil.Sub(now); {
	case ended(r):
		return "no longer accepted", false
	case left <= 0:
		return "expired " + kit.Ago(r.CertifiedUntil, now) + "; enroll the machine again", true
	case !connected(r):
		return "expires " + kit.Ago(r.CertifiedUntil, now) + " unless the runner connects before that", left < 24*time.Hour
	default:
		return "renews itself", false
	}
}
