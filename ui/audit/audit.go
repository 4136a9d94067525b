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
		get("/new", news),
		get("/verify", verify),
		get("/replay", showReplay),
		get("/{id}", event),
		{Method: http.MethodGet, Path: "/w/{workspace}/audit/export", Send: export},
	}
}

const perPage = 50

// data is what the page shows.
type data struct {
	filter filter
	list   client.AuditAnswerBody
	report *client.VerifyAnswerBody // nil if there was none yet
	why    string                   // why it could not be verified
}

// called returns the present name of an actor, or the one in the record if it is unknown.
func called(a client.AuditActor) string {
	if a.DisplayName != nil && *a.DisplayName != "" {
		return *a.DisplayName
	}
	if a.Type == client.AuditActorTypeSystem && machines[a.Name] != "" {
		return machines[a.Name]
	}
	return a.Name
}

func show(v *page.Visit) (page.Page, error) {
	return shown(v, lastReport)
}

// shown returns the page with the report of a verification.
func shown(v *page.Visit, verified func(context.Context, *page.Visit, *data) error) (p page.Page, err error) {
	var d data
	if d.filter, err = asked(v); err != nil {
		return p, err
	}
	v.API.Await(v.Workspace.Seq) // what comes after it is counted as new
	err = v.Load(func(ctx context.Context) error {
		return d.load(ctx, v)
	}, func(ctx context.Context) error {
		return verified(ctx, v, &d)
	})
	return page.Page{Title: "Audit log", NavEntry: "audit", Main: view(v, d)}, err
}

// load reads the records that match the filter.
func (d *data) load(ctx context.Context, v *page.Visit) (err error) {
	if d.filter.problem != "" {
		return nil
	}
	params := d.filter.list()
	params.Limit, params.Cursor, params.Total = client.Optional(int64(perPage)), client.Optional(v.Query("cursor")), client.Optional(true)
	d.list, err = client.Read[client.AuditAnswerBody](v.API.ListAudit(ctx, params))
	if r := client.AsRefused(err); r != nil && r.Status == http.StatusUnprocessableEntity {
		d.filter.problem = page.Sentence(r)
		return nil
	}
	return err
}

// lastReport reads the result of the last verification, whoever asked for it.
func lastReport(ctx context.Context, v *page.Visit, d *data) error {
	report, err := client.Read[client.VerifyAnswerBody](v.API.GetLastVerification(ctx, nil))
	if r := client.AsRefused(err); r != nil && r.Code == "audit_not_verified" {
		return nil
	}
	d.report = &report
	return err
}

const maxNews = 100 // events that are counted

// news counts the records that are newer than the page. The rows of the page stay where they are.
func news(v *page.Visit) (page.Page, error) {
	f := parse(v.Query("q"))
	after, err := strconv.ParseInt(v.Query("after"), 10, 64)
	if err != nil || f.problem != "" {
		return page.Page{Part: newEvents(v, f, "")}, nil
	}
	params := f.list()
	params.Limit = client.Optional(int64(maxNews))
	list, err := client.Read[client.AuditAnswerBody](v.API.ListAudit(v.Context(), params))
	n := 0
	for n < len(list.Items) && list.Items[n].Seq > after {
		n++
	}
	count := ""
	switch {
	case n == maxNews:
		count = fmt.Sprintf("%d or more new events", maxNews)
	case n == 1:
		count = "1 new event"
	case n > 1:
		count = fmt.Sprintf("%d new events", n)
	}
	return page.Page{Part: newEvents(v, f, count)}, err
}

// event shows a record with its stored event.
func event(v *page.Visit) (page.Page, error) {
	r, err := client.Read[client.StoredRecord](v.API.GetAuditRecord(v.Context(), v.PathValue("id"), nil))
	if err != nil {
		return page.Page{}, err
	}
	text, err := raw(r)
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{Title: "Event " + kit.Number(r.Seq), NavEntry: "audit", Main: eventPage(v, record(r), text)}, nil
}

// record returns a stored record without its event.
func record(r client.StoredRecord) client.AuditRecord {
	return client.AuditRecord{
		Id: r.Id, Seq: r.Seq, At: r.At, Action: r.Action, Outcome: client.AuditRecordOutcome(r.Outcome), Code: r.Code,
		Actor: r.Actor, Target: r.Target, Changes: r.Changes, Context: r.Context,
	}
}

// raw returns the stored event as indented JSON.
func raw(r client.StoredRecord) (string, error) {
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
func verify(v *page.Visit) (page.Page, error) { return shown(v, newReport) }

func newReport(ctx context.Context, v *page.Visit, d *data) error {
	report, err := client.Read[client.VerifyAnswerBody](v.API.VerifyAudit(ctx, nil))
	if r := client.AsRefused(err); r != nil && r.Status != http.StatusUnauthorized {
		d.why = r.Message
		return nil
	}
	d.report = &report
	return err
}

// signer returns who signed a checkpoint: the first line of the note without the workspace.
func signer(r *client.VerifyAnswerBody) string {
	name, _, _ := strings.Cut(r.Checkpoint, "\n")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// found describes how many records match the filter, on all pages.
func found(d data) string {
	shown := kit.Number(int64(len(d.list.Items)))
	switch total := d.list.Total; {
	case total == nil:
		return shown + " events, newest first"
	case !total.Exact:
		return shown + " of at least " + kit.Number(total.Count) + " matching events, newest first"
	case len(d.filter.terms) == 0:
		return shown + " of " + kit.Number(total.Count) + " events, newest first"
	default:
		return shown + " of " + kit.Number(total.Count) + " matching events, newest first"
	}
}

// matching describes the events in an export of the search.
func matching(d data) string {
	switch total := d.list.Total; {
	case total == nil:
		return "Events that match the search, " + d.filter.period()
	case !total.Exact:
		return "At least " + kit.Number(total.Count) + " matching events, " + d.filter.period()
	default:
		return kit.Count(total.Count, "matching event", "matching events") + ", " + d.filter.period()
	}
}
