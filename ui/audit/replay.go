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

// replayData is the workspace as it was after one event, and the days around it.
type replayData struct {
	step          client.ReplayStep
	before, after client.WorkspaceState
	activity      client.Activity
	allEvents     bool // whether to step to each event, not only to those about people and access
	playSpeed     int  // speed of playing: 1, 4 or 16; 0 if paused
	rows          []stateRow
}

// showReplay shows the workspace after the event ?seq. A time in ?at or ?t is redirected to
// the newest event at that time.
func showReplay(v *page.Visit) (page.Page, error) {
	shown := page.Page{Title: "Replay", NavEntry: "audit"}
	if at, ok, err := requestedTime(v); ok || err != nil {
		if err == nil {
			err = redirectToTime(v, at)
		}
		return shown, err
	}
	seq, err := strconv.ParseInt(cmp.Or(v.Query("seq"), strconv.FormatInt(v.Workspace.Seq, 10)), 10, 64)
	if err != nil || seq < 1 {
		return shown, &client.Refused{Status: http.StatusUnprocessableEntity, Message: "An event has a number from 1 on."}
	}
	v.API.RequirePosition(min(seq, v.Workspace.Seq))
	d := replayData{allEvents: v.Query("all") != ""}
	if d.playSpeed, err = strconv.Atoi(cmp.Or(v.Query("play"), "0")); err != nil || !slices.Contains([]int{0, 1, 4, 16}, d.playSpeed) {
		d.playSpeed = 0
	}
	err = v.Load(func(ctx context.Context) error {
		answer, err := client.Decode[client.ReplayAnswerBody](v.API.ReplayAudit(ctx, &client.ReplayAuditParams{FromSeq: seq, ToSeq: seq}))
		if err != nil {
			return err
		}
		d.before, d.after, d.step = answer.Before, answer.After, answer.Steps[0]
		return nil
	}, func(ctx context.Context) (err error) {
		d.activity, err = client.Decode[client.Activity](v.API.GetAuditActivity(ctx, &client.GetAuditActivityParams{
			Range: client.Optional(client.GetAuditActivityParamsRange(v.Query("range"))), Seq: &seq,
		}))
		return err
	})
	if err != nil {
		return shown, err
	}
	d.rows = compareStates(d.before, d.after, d.step.At)
	shown.Main = replayView(v, d)
	return shown, nil
}

// inputTimeLayout is the format of datetime-local inputs. The page's are in UTC.
const inputTimeLayout = "2006-01-02T15:04"

// requestedTime returns the time in ?t, Unix seconds from the slider, or in ?at, from the
// input; ok is false if there is neither.
func requestedTime(v *page.Visit) (at time.Time, ok bool, err error) {
	switch {
	case v.Query("t") != "":
		seconds, err := strconv.ParseInt(v.Query("t"), 10, 64)
		if err != nil {
			return at, false, &client.Refused{Status: http.StatusUnprocessableEntity, Message: "A place on the line is a number of seconds."}
		}
		return time.Unix(seconds, 0), true, nil
	case v.Query("at") != "":
		for _, layout := range []string{inputTimeLayout, time.RFC3339, time.DateOnly} {
			if at, err = time.Parse(layout, v.Query("at")); err == nil {
				return at, true, nil
			}
		}
		return at, false, &client.Refused{Status: http.StatusUnprocessableEntity, Message: "A time is written as in 2026-11-12T14:03."}
	}
	return at, false, nil
}

// redirectToTime returns a redirect to the newest event at a time.
func redirectToTime(v *page.Visit, at time.Time) error {
	if at.After(v.Now) {
		return page.Redirect(v.WithQuery("t", "", "at", "", "seq", ""))
	}
	state, err := client.Decode[client.WorkspaceState](v.API.GetAuditState(v.Context(), &client.GetAuditStateParams{At: &at}))
	if r := client.AsRefused(err); r != nil && r.FieldError("at") != "" { // before the first event
		return page.Redirect(v.WithQuery("t", "", "at", "", "seq", "1"))
	}
	if err != nil {
		return err
	}
	return page.Redirect(v.WithQuery("t", "", "at", "", "seq", strconv.FormatInt(state.Seq, 10)))
}

// stepAddress returns the address of an event, paused.
func stepAddress(v *page.Visit, seq int64) string {
	return v.WithQuery("seq", strconv.FormatInt(seq, 10), "play", "", "t", "", "at", "")
}

// playAddress returns the address that plays from an event.
func playAddress(v *page.Visit, seq int64, speed int) string {
	return v.WithQuery("seq", strconv.FormatInt(seq, 10), "play", strconv.Itoa(speed), "t", "", "at", "")
}

// next returns the sequence number of the next step, 0 if there is none.
func (d replayData) next() int64 {
	if d.allEvents && d.step.Seq < d.activity.Head {
		return d.step.Seq + 1
	}
	for _, r := range d.activity.Around {
		if r.Seq > d.step.Seq && !d.allEvents {
			return r.Seq
		}
	}
	return 0
}

// previous returns the sequence number of the previous step, 0 if there is none.
func (d replayData) previous() int64 {
	if d.allEvents {
		return d.step.Seq - 1
	}
	for _, r := range slices.Backward(d.activity.Around) {
		if r.Seq < d.step.Seq {
			return r.Seq
		}
	}
	return 0
}

// nearbySteps returns the step and the events about people and access nearest to it, oldest first.
func (d replayData) nearbySteps() []client.AuditRecord {
	list := slices.Clone(d.activity.Around)
	this, _ := slices.BinarySearchFunc(list, d.step.Seq, func(r client.AuditRecord, seq int64) int { return cmp.Compare(r.Seq, seq) })
	return slices.Insert(list, this, d.auditRecord())
}

// auditRecord returns the step as a record of the log.
func (d replayData) auditRecord() client.AuditRecord {
	s := d.step
	return client.AuditRecord{
		Seq: s.Seq, At: s.At, Action: s.Action, Outcome: client.AuditRecordOutcome(s.Outcome), Actor: s.Actor, Target: s.Target,
	}
}

func markKind(r client.AuditRecord) client.ActiveMarkKind {
	if denied(r) {
		return client.ActiveMarkKindDenied
	}
	noun, _, _ := strings.Cut(r.Action, ".")
	if kind := client.ActiveMarkKind(noun); kind.Valid() {
		return kind
	}
	return client.ActiveMarkKindOther
}

// A diffLine is one line of the difference that an event made to the state.
type diffLine struct {
	added bool
	text  string
}

const maxDiff = 40 // lines

// diff returns the patch of the step as removed and added lines.
func (d replayData) diff() (list []diffLine) {
	for _, o := range d.step.Patch {
		if o.Path == "/seq" || o.Path == "/at" {
			continue
		}
		name := strings.TrimPrefix(o.Path, "/")
		if o.Op != client.Add {
			list = append(list, diffLine{false, name + oldValue(d.before, o.Path)})
		}
		if o.Op != client.Remove {
			list = append(list, addedLines(name, o.Value)...)
		}
	}
	return list[:min(len(list), maxDiff)]
}

// addedLines returns a line for an added value, or one for each field of an added row
// except ids.
func addedLines(name string, added any) (list []diffLine) {
	row, ok := added.(map[string]any)
	if !ok {
		return []diffLine{{true, name + ": " + formatValue(added)}}
	}
	for _, field := range slices.Sorted(maps.Keys(row)) {
		if field != "id" && field != "userId" && row[field] != nil {
			list = append(list, diffLine{true, name + "/" + field + ": " + formatValue(row[field])})
		}
	}
	return list
}

// oldValue returns ": " and the value at a path of the state, or "" if the path is not a
// field of the workspace or of a row.
func oldValue(state client.WorkspaceState, path string) string {
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
	return ": " + formatValue(fields[parts[len(parts)-1]])
}

// nowAddress returns the address of the newest event.
func nowAddress(v *page.Visit) string {
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

// playStart returns the event from which to play: the step, or, if it is the last, the
// first of the timeline's days.
func (d replayData) playStart() int64 {
	if d.next() > 0 {
		return d.step.Seq
	}
	return max(d.activity.FirstSeq, 1)
}
