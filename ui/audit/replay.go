package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/page"
)

// A replayed is the workspace as it was after one event, and the days around it.
type replayed struct {
	step          client.ReplayStep
	before, after client.WorkspaceState
	activity      client.Activity
	everything    bool // steps go to each event, not only to those about people and access
	play          int  // how fast it goes on by itself; 0 does not
	rows          []stateRow
}

// showReplay shows the workspace after the event ?seq, or at the time ?at or ?t, whose
// event it looks up.
func showReplay(v *page.Visit) (page.Page, error) {
	shown := page.Page{Title: "Replay", NavEntry: "audit"}
	if at, ok, err := askedTime(v); ok || err != nil {
		if err == nil {
			err = toTime(v, at)
		}
		return shown, err
	}
	seq, err := strconv.ParseInt(cmp.Or(v.Query("seq"), strconv.FormatInt(v.Workspace.Seq, 10)), 10, 64)
	if err != nil || seq < 1 {
		return shown, &client.Refused{Status: http.StatusUnprocessableEntity, Message: "An event has a number from 1 on."}
	}
	v.API.Await(min(seq, v.Workspace.Seq))
	d := replayed{everything: v.Query("all") != ""}
	if d.play, err = strconv.Atoi(cmp.Or(v.Query("play"), "0")); err != nil || !slices.Contains([]int{0, 1, 4, 16}, d.play) {
		d.play = 0
	}
	err = v.Load(func(ctx context.Context) error {
		answer, err := client.Read[client.ReplayAnswerBody](v.API.ReplayAudit(ctx, &client.ReplayAuditParams{FromSeq: seq, ToSeq: seq}))
		if err != nil {
			return err
		}
		d.before, d.after, d.step = answer.Before, answer.After, answer.Steps[0]
		return nil
	}, func(ctx context.Context) (err error) {
		d.activity, err = client.Read[client.Activity](v.API.GetAuditActivity(ctx, &client.GetAuditActivityParams{
			Range: client.Optional(client.GetAuditActivityParamsRange(v.Query("range"))), Seq: &seq,
		}))
		return err
	})
	if err != nil {
		return shown, err
	}
	d.rows = compare(d.before, d.after, d.step.At)
	shown.Main = replayView(v, d)
	return shown, nil
}

// fieldTime is how a field of dates and times writes one; ours mean UTC.
const fieldTime = "2006-01-02T15:04"

// askedTime returns the time that the slider (seconds) or the field names.
func askedTime(v *page.Visit) (at time.Time, ok bool, err error) {
	switch {
	case v.Query("t") != "":
		seconds, err := strconv.ParseInt(v.Query("t"), 10, 64)
		if err != nil {
			return at, false, &client.Refused{Status: http.StatusUnprocessableEntity, Message: "A place on the line is a number of seconds."}
		}
		return time.Unix(seconds, 0), true, nil
	case v.Query("at") != "":
		for _, layout := range []string{fieldTime, time.RFC3339, time.DateOnly} {
			if at, err = time.Parse(layout, v.Query("at")); err == nil {
				return at, true, nil
			}
		}
		return at, false, &client.Refused{Status: http.StatusUnprocessableEntity, Message: "A time is written as in 2026-11-12T14:03."}
	}
	return at, false, nil
}

// toTime leads to the event that was the newest at a time.
func toTime(v *page.Visit, at time.Time) error {
	if at.After(v.Now) {
		return page.Redirect(v.WithQuery("t", "", "at", "", "seq", ""))
	}
	state, err := client.Read[client.WorkspaceState](v.API.GetAuditState(v.Context(), &client.GetAuditStateParams{At: &at}))
	if r := client.AsRefused(err); r != nil && r.Field("at") != "" { // before the first event
		return page.Redirect(v.WithQuery("t", "", "at", "", "seq", "1"))
	}
	if err != nil {
		return err
	}
	return page.Redirect(v.WithQuery("t", "", "at", "", "seq", strconv.FormatInt(state.Seq, 10)))
}

// goTo returns the address of another event, without going on by itself.
func goTo(v *page.Visit, seq int64) string {
	return v.WithQuery("seq", strconv.FormatInt(seq, 10), "play", "", "t", "", "at", "")
}

// playFrom returns the address of an event from which it goes on.
func playFrom(v *page.Visit, seq int64, speed int) string {
	return v.WithQuery("seq", strconv.FormatInt(seq, 10), "play", strconv.Itoa(speed), "t", "", "at", "")
}

// next returns the number of the event after this one that steps go to; 0 if there is none.
func (d replayed) next() int64 {
	if d.everything && d.step.Seq < d.activity.Head {
		return d.step.Seq + 1
	}
	for _, r := range d.activity.Around {
		if r.Seq > d.step.Seq && !d.everything {
			return r.Seq
		}
	}
	return 0
}

// previous returns the number of the event before this one that steps go to; 0 if there
// is none.
func (d replayed) previous() int64 {
	if d.everything {
		return d.step.Seq - 1
	}
	for _, r := range slices.Backward(d.activity.Around) {
		if r.Seq < d.step.Seq {
			return r.Seq
		}
	}
	return 0
}

// around are the marks nearest to the step, itself among them, the oldest first.
func (d replayed) around() []client.AuditRecord {
	list := slices.Clone(d.activity.Around)
	this, _ := slices.BinarySearchFunc(list, d.step.Seq, func(r client.AuditRecord, seq int64) int { return cmp.Compare(r.Seq, seq) })
	return slices.Insert(list, this, d.record())
}

// record is the step as the log shows it.
func (d replayed) record() client.AuditRecord {
	s := d.step
	return client.AuditRecord{
		Seq: s.Seq, At: s.At, Action: s.Action, Outcome: client.AuditRecordOutcome(s.Outcome), Actor: s.Actor, Target: s.Target,
	}
}

func kindOf(r client.AuditRecord) client.ActiveMarkKind {
	if denied(r) {
		return client.ActiveMarkKindDenied
	}
	noun, _, _ := strings.Cut(r.Action, ".")
	return client.ActiveMarkKind(noun)
}

// A diffLine is a line of what an event did to the state.
type diffLine struct {
	added bool
	text  string
}

const maxDiff = 40 // lines that are shown

// diff writes the patch of the step as lines that went and lines that came.
func (d replayed) diff() (list []diffLine) {
	for _, o := range d.step.Patch {
		if o.Path == "/seq" || o.Path == "/at" {
			continue
		}
		name := strings.TrimPrefix(o.Path, "/")
		if o.Op != client.Add {
			list = append(list, diffLine{false, name + was(d.before, o.Path)})
		}
		if o.Op != client.Remove {
			list = append(list, came(name, o.Value)...)
		}
	}
	return list[:min(len(list), maxDiff)]
}

// came writes what is new: of a row each field, but for numbers that say nothing.
func came(name string, what any) (list []diffLine) {
	row, ok := what.(map[string]any)
	if !ok {
		return []diffLine{{true, name + ": " + value(what)}}
	}
	for _, field := range slices.Sorted(maps.Keys(row)) {
		if field != "id" && field != "userId" && row[field] != nil {
			list = append(list, diffLine{true, name + "/" + field + ": " + value(row[field])})
		}
	}
	return list
}

// was tells what the state had at a path, as far as it is a field of a row.
func was(state client.WorkspaceState, path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	var row any = state.Workspace
	if len(parts) == 3 {
		i, err := strconv.Atoi(parts[1])
		switch {
		case err != nil || i < 0:
			return ""
		case parts[0] == "members" && i < len(state.Members):
			row = state.Members[i]
		case parts[0] == "invitations" && i < len(state.Invitations):
			row = state.Invitations[i]
		case parts[0] == "serviceAccounts" && i < len(state.ServiceAccounts):
			row = state.ServiceAccounts[i]
		default:
			return ""
		}
	} else if len(parts) != 2 || parts[0] != "workspace" {
		return ""
	}
	text, err := json.Marshal(row)
	fields := map[string]any{}
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return ""
	}
	return ": " + value(fields[parts[len(parts)-1]])
}

// newAddress returns the address of the newest event, of now.
func newAddress(v *page.Visit) string {
	q := url.Values{}
	for _, name := range []string{"all", "range"} {
		if text := v.Query(name); text != "" {
			q.Set(name, text)
		}
	}
	if len(q) == 0 {
		return v.Path("audit", "replay")
	}
	return v.Path("audit", "replay") + "?" + q.Encode()
}

// playStart is where playing begins: at this step, or with the first of these days after the last.
func (d replayed) playStart() int64 {
	if d.next() > 0 {
		return d.step.Seq
	}
	return max(d.activity.FirstSeq, 1)
}
