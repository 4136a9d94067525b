package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"svc/events"
	"svc/farm/artifacts"
	"svc/farm/wire"
	"svc/input"
)

// The files that an implementer leaves.
const (
	diffFile    = wire.OutFolder + "/" + wire.ChangeFile
	outcomeFile = wire.OutFolder + "/" + wire.OutcomeFile
	maxDiff     = 16 << 20
	maxOutcome  = 256 << 10
	maxText     = 10_000 // characters of a text of an outcome
)

// An outcome is outcome.json, what an implementer says about its work. Nothing in it is trusted:
// what has changed is told by git. Unknown fields are ignored.
type outcome struct {
	Status        string        `json:"status"` // done, needs_fact, gave_up
	Summary       string        `json:"summary"`
	Facts         []outcomeFact `json:"facts"`
	CommitMessage string        `json:"commitMessage"`
	Cost          *outcomeCost  `json:"cost"`
}

type outcomeFact struct {
	Text string `json:"text"`
	Sure bool   `json:"sure"`
}

type outcomeCost struct {
	Cents        *float64 `json:"cents"`
	InputTokens  int64    `json:"inputTokens"`
	OutputTokens int64    `json:"outputTokens"`
}

// A written is a change that is to be committed.
type written struct {
	change  []byte
	message string
	at      time.Time
	parent  string
	facts   []events.Event // to be recorded with it
}

// readWork returns what a job has written, or the facts that follow if there is nothing to commit.
func (r *runner) readWork(ctx context.Context, id events.ID) (w written, facts []events.Event, err error) {
	job := lastJob(r.p, events.JobImplements, "", "")
	text, err := r.readFile(ctx, id, outcomeFile, maxOutcome)
	if err != nil && !errors.Is(err, errNoFile) {
		return w, nil, err
	}
	o := parseOutcome(text)
	cost := o.costOf(id)
	finding := ""
	switch {
	case job.State == events.JobStateTimedOut:
		finding = "The implementer took too long, and was stopped."
	case o.Status == "needs_fact":
		question := "The implementer needs to know: " + o.needs()
		return w, []events.Event{cost, events.RunFactsRecorded{Facts: append(r.p.Facts, question)},
			events.DecisionRaised{Decision: events.NewID(r.Now()), About: events.FactReview, Question: question}}, nil
	case o.Status == "gave_up":
		return w, append([]events.Event{cost}, failed(r.p, events.FailGaveUp, "The implementer gave up: "+o.Summary)...), nil
	case o.Status != "done":
		reason := "The implementer ended without saying what it did."
		if tail, err := r.logTail(ctx, id, 500); err == nil && len(tail) > 0 {
			reason += " Its last output: " + clean(strings.ToValidUTF8(string(tail), "�"))
		}
		finding = reason
	}
	if finding != "" {
		return w, append([]events.Event{cost}, again(r.p, Surroundings{Repo: r.repo}, events.FailGaveUp, finding).Record...), nil
	}
	diff, err := r.readFile(ctx, id, diffFile, maxDiff)
	leaked := ""
	if err == nil {
		leaked, err = r.secretIn(ctx, diff)
	}
	switch {
	case errors.Is(err, errNoFile):
		reason := "The runner kept no record of what changed. Update svc-runner on the build machines."
		return w, append([]events.Event{cost}, failed(r.p, events.FailSurroundings, reason)...), nil
	case err != nil:
		return w, nil, err
	case len(diff) == 0:
		return w, append([]events.Event{cost}, failed(r.p, events.FailNoChange, "The implementer changed nothing: "+o.Summary)...), nil
	case leaked != "":
		reason := "The change contains the value of the job secret " + leaked + "."
		return w, append([]events.Event{cost}, failed(r.p, events.FailGuardrails, reason)...), nil
	}
	w = written{change: diff, message: o.message(r.p.IssueRead.Title), at: id.Time(), parent: job.Head, facts: []events.Event{cost}}
	return w, nil, nil
}

// secretIn returns the name of a secret of the implementer whose value is in a change, or "". Shorter values than
// minSecret are in many texts.
func (r *runner) secretIn(ctx context.Context, diff []byte) (string, error) {
	names := r.repo.Settings.Implementer.Secrets
	if len(names) == 0 {
		return "", nil
	}
	values, err := r.Secrets(ctx, r.workspace, names)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if value := values[name]; len(value) >= minSecret && bytes.Contains(diff, []byte(value)) {
			return name, nil
		}
	}
	return "", nil
}

const minSecret = 8

// parseOutcome returns an outcome without anything that may not be stored. It is zero if there is none.
func parseOutcome(text []byte) (o outcome) {
	if json.Unmarshal(text, &o) != nil {
		return outcome{}
	}
	o.Summary, o.CommitMessage = clean(o.Summary), clean(o.CommitMessage)
	for i := range o.Facts {
		o.Facts[i].Text = clean(o.Facts[i].Text)
	}
	return o
}

func (o outcome) needs() string {
	for _, f := range o.Facts {
		if !f.Sure && f.Text != "" {
			return f.Text
		}
	}
	return o.Summary
}

func (o outcome) message(title string) string {
	if strings.TrimSpace(o.CommitMessage) == "" {
		return title
	}
	return o.CommitMessage
}

// costOf returns the cost that an implementer reports. What it does not report is unknown, and not nothing.
func (o outcome) costOf(job events.ID) events.RunCostRecorded {
	e := events.RunCostRecorded{Source: "model", Key: fmt.Sprintf("job/%s/model", job), Unknown: true}
	if c := o.Cost; c != nil {
		e.Quantity = max(0, c.InputTokens) + max(0, c.OutputTokens)
		if c.Cents != nil && *c.Cents >= 0 && *c.Cents < maxCents {
			e.Cents, e.Unknown = int64(*c.Cents+0.5), false
		}
	}
	return e
}

// maxCents bounds what an implementer may say that it cost.
const maxCents = 1_000_000_00

var errNoFile = artifacts.ErrMissing

// readFile reads a file that a job has left. Its error is errNoFile if there is none.
func (r *runner) readFile(ctx context.Context, job events.ID, path string, most int64) ([]byte, error) {
	if r.Artifacts == nil {
		return nil, errNoFile
	}
	return artifacts.ReadFile(ctx, r.Artifacts, r.Events, r.workspace, job, path, most)
}

// logTail returns the end of what a job printed.
func (r *runner) logTail(ctx context.Context, job events.ID, most int) ([]byte, error) {
	s, err := r.Commands.RunJobState(ctx, r.workspace, job)
	if err != nil || s.Epoch == 0 {
		return nil, err
	}
	return r.Logs.Tail(ctx, r.workspace, job, s.Epoch, most)
}

// clean returns text from outside as it may be stored: without tokens, control characters and whatever would be hidden
// from a reader, and not too long.
func clean(text string) string { return input.Text(mask(text), maxText) }

func cleanAll(texts []string) (list []string) {
	for _, t := range texts[:min(len(texts), maxLabels)] {
		list = append(list, clean(t))
	}
	return list
}

// maxLabels is how many labels of an issue are kept.
const maxLabels = 100

func mask(text string) string { return input.MaskTokens(text) }
