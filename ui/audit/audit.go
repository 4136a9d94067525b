// Package audit is the page of the audit log: search, verification, export and replay.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	get := func(path string, show func(*page.Visit) (page.Page, error)) page.Route {
		return page.Route{Method: http.MethodGet, Path: "/w/{workspace}/audit" + path, Show: show}
	}
	return []page.Route{
		get("", show),
		get("/new", countNewEvents),
		get("/complete", complete),
		get("/verify", verify),
		get("/replay", showReplay),
		get("/{id}", showEvent),
		{Method: http.MethodGet, Path: "/w/{workspace}/audit/export", Send: export},
	}
}

const perPage = 50

// pageData is the content of the page.
type pageData struct {
	filter  filter
	list    client.AuditAnswerBody
	report  *client.VerifyAnswerBody // nil if the log was never verified
	failure string                   // why the verification did not run; "" if it did
}

// actorName returns the current name of an actor, or the one in the record if it is unknown.
func actorName(a client.AuditActor) string {
	if a.DisplayName != nil && *a.DisplayName != "" {
		return *a.DisplayName
	}
	if a.Type == client.AuditActorTypeSystem && kit.SystemActors[a.Name] != "" {
		return kit.SystemActors[a.Name]
	}
	return a.Name
}

func show(v *page.Visit) (page.Page, error) {
	return showWith(v, loadLastReport)
}

// showWith returns the page with the verification report that loadReport stores in d.
func showWith(v *page.Visit, loadReport func(context.Context, *page.Visit, *pageData) error) (p page.Page, err error) {
	var d pageData
	if d.filter, err = filterFromQuery(v); err != nil {
		return p, err
	}
	v.API.RequirePosition(v.Workspace.Seq) // later events are counted as new
	err = v.Load(func(ctx context.Context) error {
		return d.load(ctx, v)
	}, func(ctx context.Context) error {
		return loadReport(ctx, v, &d)
	})
	return page.Page{Title: "Audit log", NavEntry: "audit", Main: view(v, d)}, err
}

// load reads the records that match the filter.
func (d *pageData) load(ctx context.Context, v *page.Visit) (err error) {
	if d.filter.problem != "" {
		return nil
	}
	params := d.filter.listParams()
	params.Limit, params.Cursor, params.Total = client.Optional(int64(perPage)), client.Optional(v.Query("cursor")), client.Optional(true)
	d.list, err = client.Decode[client.AuditAnswerBody](v.API.ListAudit(ctx, params))
	if r := client.AsRefused(err); r != nil && r.Status == http.StatusUnprocessableEntity {
		d.filter.problem = page.Sentence(r)
		return nil
	}
	return err
}

// loadLastReport reads the result of the last verification by anybody.
func loadLastReport(ctx context.Context, v *page.Visit, d *pageData) error {
	report, err := client.Decode[client.VerifyAnswerBody](v.API.GetLastVerification(ctx, nil))
	if r := client.AsRefused(err); r != nil && r.Code == "audit_not_verified" {
		return nil
	}
	d.report = &report
	return err
}

const maxNewEvents = 100 // counted at most

// countNewEvents counts the records that are newer than the page. It does not add them, so
// that the rows of the page stay where they are.
func countNewEvents(v *page.Visit) (page.Page, error) {
	f := parseQuery(v)
	after, err := strconv.ParseInt(v.Query("after"), 10, 64)
	if err != nil || f.problem != "" {
		return page.Page{Part: newEvents(v, f, "")}, nil
	}
	params := f.listParams()
	params.Limit = client.Optional(int64(maxNewEvents))
	list, err := client.Decode[client.AuditAnswerBody](v.API.ListAudit(v.Context(), params))
	n := 0
	for n < len(list.Items) && list.Items[n].Seq > after {
		n++
	}
	count := ""
	switch {
	case n == maxNewEvents:
		count = fmt.Sprintf("%d or more new events", maxNewEvents)
	case n == 1:
		count = "1 new event"
	case n > 1:
		count = fmt.Sprintf("%d new events", n)
	}
	return page.Page{Part: newEvents(v, f, count)}, err
}

// showEvent shows a record with its stored event.
func showEvent(v *page.Visit) (page.Page, error) {
	r, err := client.Decode[client.StoredRecord](v.API.GetAuditRecord(v.Context(), v.PathValue("id"), nil))
	if err != nil {
		return page.Page{}, err
	}
	text, err := rawEvent(r)
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{Title: "Event " + kit.Number(r.Seq), NavEntry: "audit", Main: eventPage(v, auditRecord(r), text)}, nil
}

// auditRecord returns a stored record without its event.
func auditRecord(r client.StoredRecord) client.AuditRecord {
	return client.AuditRecord{
		Id: r.Id, Seq: r.Seq, At: r.At, Action: r.Action, Outcome: client.AuditRecordOutcome(r.Outcome), Code: r.Code,
		Actor: r.Actor, Target: r.Target, Changes: r.Changes, Context: r.Context,
	}
}

// rawEvent returns the stored event as indented JSON.
func rawEvent(r client.StoredRecord) (string, error) {
	text, err := json.MarshalIndent(struct {
		Seq    int64             `json:"seq"`
		ID     string            `json:"id"`
		Kind   string            `json:"kind"`
		Schema int64             `json:"schema"`
		At     string            `json:"at"`
		Actor  client.AuditActor `json:"actor"`
		Data   any               `json:"data"`
	}{r.Seq, r.Id, r.Event.Kind, r.Event.Schema, r.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"), r.Actor, r.Event.Data}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write event %d: %w", r.Seq, err)
	}
	return string(text), nil
}

// verify has the service verify the log and shows the page with the report.
func verify(v *page.Visit) (page.Page, error) { return showWith(v, runVerification) }

func runVerification(ctx context.Context, v *page.Visit, d *pageData) error {
	report, err := client.Decode[client.VerifyAnswerBody](v.API.VerifyAudit(ctx, nil))
	if r := client.AsRefused(err); r != nil && r.Status != http.StatusUnauthorized {
		d.failure = r.Message
		return nil
	}
	d.report = &report
	return err
}

// signer returns the name of the checkpoint's signer: the first line of the signed note up
// to the workspace.
func signer(r *client.VerifyAnswerBody) string {
	name, _, _ := strings.Cut(r.Checkpoint, "\n")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// resultCount describes how many records match the filter, on all pages.
func resultCount(d pageData) string {
	shown := kit.Number(int64(len(d.list.Items)))
	switch total := d.list.Total; {
	case total == nil:
		return shown + " events, newest first"
	case !total.Exact:
		return shown + " of at least " + kit.Number(total.Count) + " matching events, newest first"
	case d.filter.selectsAll():
		return shown + " of " + kit.Number(total.Count) + " events, newest first"
	default:
		return shown + " of " + kit.Number(total.Count) + " matching events, newest first"
	}
}

// exportSummary describes the events in an export of the search.
func exportSummary(d pageData) string {
	switch total := d.list.Total; {
	case total == nil:
		return "Events that match the search, " + d.filter.period()
	case !total.Exact:
		return "At least " + kit.Number(total.Count) + " matching events, " + d.filter.period()
	default:
		return kit.Count(total.Count, "matching event", "matching events") + ", " + d.filter.period()
	}
}
