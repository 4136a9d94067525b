// Package farm contains the pages of the build farm: runners, enrollment of machines, and job
// secrets.
package farm

import (
	"context"
	"net/http"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the pages.
func Routes() []page.Route {
	const farm = "/w/{workspace}/farm"
	runner := func(path string, do func(*page.Visit) (page.Notice, error)) page.Route {
		return page.Route{Method: http.MethodPost, Path: farm + "/runners/{id}/" + path, Do: do, Show: showChanged, Back: "farm"}
	}
	return append(secretRoutes(), []page.Route{
		{Method: http.MethodGet, Path: farm, Show: show},
		runner("drain", drain), runner("resume", resume),
		{Method: http.MethodPost, Path: farm + "/runners/{id}/revoke", Do: revokeRunner, Show: showChanged, Back: "farm", Ask: askRevoke},
		{Method: http.MethodGet, Path: farm + "/runners/{id}", Show: showRunner},
		{Method: http.MethodPost, Path: farm + "/enroll", Do: enroll, Show: showAdd, ShowsSecret: true, Back: "farm"},
		{Method: http.MethodGet, Path: farm + "/enroll", Show: showAdd},
		{Method: http.MethodGet, Path: farm + "/enrollments/{id}", Show: awaitRunner},
		{Method: http.MethodGet, Path: farm + "/enrollments", Show: showEnrollments},
		{Method: http.MethodPost, Path: farm + "/enrollments/{id}/withdraw", Do: withdraw, Show: showWithdrawn, Back: "farm"},
	}...)
}

const runnersPerPage = 100 // the API's maximum

// farmData is the content of the page of runners.
type farmData struct {
	Farm      client.FarmSummary
	OffReason string // why the farm is off; "" if it is on
	Runners   client.RunnerList
}

func show(v *page.Visit) (page.Page, error) {
	var d farmData
	offset := v.QueryNumber("offset")
	err := v.Load(func(ctx context.Context) (err error) {
		d.Farm, err = client.Decode[client.FarmSummary](v.API.GetFarm(ctx, nil))
		return ignoreFarmOff(&d, err)
	}, func(ctx context.Context) (err error) {
		d.Runners, err = client.Decode[client.RunnerList](v.API.ListRunners(ctx, &client.ListRunnersParams{
			Limit: client.Optional(int64(runnersPerPage)), Offset: client.Optional(offset), Status: statusFilter(v),
		}))
		return ignoreFarmOff(nil, err)
	})
	return page.Page{Title: "Build Farm", NavEntry: "farm", Main: view(v, d)}, err
}

// ignoreFarmOff returns nil for the refusal of a farm that is off, whose message it stores
// in d unless d is nil. It returns other errors.
func ignoreFarmOff(d *farmData, err error) error {
	if r := client.AsRefused(err); r != nil && r.Code == "farm_off" {
		if d != nil {
			d.OffReason = r.Message
		}
		return nil
	}
	return err
}

// statusFilter returns the status by which runners are filtered, nil for all.
func statusFilter(v *page.Visit) *client.ListRunnersParamsStatus {
	s := client.ListRunnersParamsStatus(v.Query("status"))
	if !s.Valid() {
		return nil
	}
	return &s
}

// onlineRunners returns the number of connected runners, draining ones included.
func (d farmData) onlineRunners() int64 { return d.Farm.Slots.Online + d.Farm.Slots.Draining }

// hasMore reports whether there are runners after those of the page.
func (d farmData) hasMore() bool {
	return d.Runners.Offset+int64(len(d.Runners.Items)) < d.Runners.Total
}

func isConnected(r client.Runner) bool {
	return r.State == client.RunnerStateOnline || r.State == client.RunnerStateDraining
}

// hasEnded reports whether a runner was revoked or has retired, and so never connects again.
func hasEnded(r client.Runner) bool {
	return r.State == client.RunnerStateRevoked || r.State == client.RunnerStateRetired
}

func drain(v *page.Visit) (page.Notice, error) {
	r, err := client.Decode[client.Runner](v.API.DrainRunner(v.Context(), v.PathValue("id"), nil, client.RunnerNoteBody{
		Note: client.Optional(strings.TrimSpace(v.PostFormValue("note"))),
	}))
	return backToRunner(v, page.Notice{Text: r.Name + " is draining."}), err
}

func resume(v *page.Visit) (page.Notice, error) {
	r, err := client.Decode[client.Runner](v.API.ResumeRunner(v.Context(), v.PathValue("id"), nil))
	return backToRunner(v, page.Notice{Text: r.Name + " is taking jobs again."}), err
}

func revokeRunner(v *page.Visit) (page.Notice, error) {
	r, err := client.Decode[client.Runner](v.API.RevokeRunner(v.Context(), v.PathValue("id"), nil, client.RunnerNoteBody{}))
	return backToRunner(v, page.Notice{Text: r.Name + " is revoked. Its certificate no longer works."}), err
}

func revokeQuestion(r client.Runner) page.Question {
	return page.Question{
		Title: "Revoke " + r.Name + "?",
		Text:  "Its certificate stops working at once; its jobs move to other runners. To confirm, type " + r.Name + ".",
		Yes:   "Revoke " + r.Name, No: "Keep it", Word: r.Name,
	}
}

// askRevoke asks for confirmation, unless the service will refuse the person anyway.
func askRevoke(v *page.Visit) (page.Question, error) {
	if !v.MayManage() {
		return page.Question{}, nil
	}
	r, err := client.Decode[client.Runner](v.API.GetRunner(v.Context(), v.PathValue("id"), nil))
	q := revokeQuestion(r)
	if v.PostFormValue("from") == fromRunner {
		q.Back = v.Path("farm", "runners", r.Id)
	}
	return q, err
}

// diagnose describes why a runner takes no jobs and the remedy; problem is "" if there is none.
func diagnose(r client.Runner) (problem, remedy string) {
	switch {
	case r.State == client.RunnerStateSuspended:
		return "A replaced certificate was used again: its key may have been copied.",
			"Find out why, then revoke the runner and enroll the machine again."
	case isConnected(r) && r.Declines != nil && r.Declines.RestsUntil != nil:
		return "It declined " + kit.Number(r.Declines.Count) + " jobs in a row: " + kit.Words(string(r.Declines.Reason)) + ".",
			"It gets a job now and then until it accepts one. See the svc-runner log on the machine."
	case r.State != client.RunnerStateOffline || r.OfflineReason == client.RunnerOfflineReasonDrained:
		return "", ""
	}
	switch r.OfflineReason {
	case client.RunnerOfflineReasonNoCertificate:
		return "The gateway forwarded no client certificate.",
			"Make it set the header named by SVC_FARM_CLIENT_CERT_HEADER on every request, then run svc-runner doctor on the machine."
	case client.RunnerOfflineReasonCertificateInvalid:
		return "The certificate has expired.",
			"Enroll the machine again. It renews its certificate by itself while it is connected."
	case client.RunnerOfflineReasonDisconnected:
		return "The connection was lost.",
			"Check that the machine is running and reaches the farm’s address, and that proxies allow WebSockets and 120 s of silence."
	}
	return "The runner is not connected.", "Run svc-runner doctor on the machine to find the failing step."
}

// waitChange compares the median wait with that of the day before; ok is false if one of
// them is unknown.
func waitChange(day client.FarmDay) (icon, class, text string, ok bool) {
	if day.MedianWaitMs == nil || day.PriorMedianWaitMs == nil {
		return "", "", "", false
	}
	switch by := kit.Millis(*day.MedianWaitMs - *day.PriorMedianWaitMs).Round(time.Second); {
	case by > 0:
		return "arrow-up-right", "bad", kit.Duration(by) + " more", true
	case by < 0:
		return "arrow-down-right", "good", kit.Duration(-by) + " less", true
	}
	return "minus", "", "as before", true
}

// dayText says how the jobs of a day ended.
func dayText(day client.FarmDay) string {
	list := []string{kit.Number(day.Succeeded) + " passed"}
	for _, part := range []struct {
		n    int64
		text string
	}{
		{day.Failed, "failed"}, {day.TimedOut, "timed out"}, {day.Cancelled, "cancelled"}, {day.Lost, "lost"}, {day.Expired, "expired"},
	} {
		if part.n > 0 {
			list = append(list, kit.Number(part.n)+" "+part.text)
		}
	}
	return strings.Join(list, ", ")
}
