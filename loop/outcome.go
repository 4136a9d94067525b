package loop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/farm/artifacts"
	"svc/farm/wire"
	"svc/fault"
	"svc/input"
)

// The files that an implementer leaves.
const (
	diffFile    = wire.OutFolder + "/" + wire.ChangeFile
	outcomeFile = wire.OutFolder + "/" + wire.OutcomeFile
	refusedFile = wire.OutFolder + "/" + wire.RefusedFile
	maxDiff     = 16 << 20
	maxOutcome  = 256 << 10
	maxText     = 10_000 // characters of a text of an outcome
)

// An outcome is outcome.json, what an implementer says about its work. Nothing in it is trusted:
// what has changed is told by git. Unknown fields are ignored.
type outcome struct {
	Status        string        `json:"status"` // done, needs_fact, gave_up, unavailable
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
	secrets, err := r.secrets(ctx)
	if err != nil {
		return w, nil, err
	}
	text, err := r.readFile(ctx, id, outcomeFile, maxOutcome)
	tooLarge := errors.Is(err, artifacts.ErrFileTooLarge)
	if err != nil && !errors.Is(err, errNoFile) && !tooLarge {
		return w, nil, err
	}
	o := parseOutcome(text, secrets)
	cost := o.costOf(id, r.repo.Settings.Prices)
	if why := r.missed(o, job); why != "" {
		return w, []events.Event{cost, events.RunWaiting{Code: events.WaitAgent, Detail: why, Job: id}}, r.note(ctx, id, why)
	}
	if r.repo.Missed != "" && o.Status != "" {
		if err := r.note(ctx, id, ""); err != nil {
			return w, nil, err
		}
	}
	finding := ""
	switch {
	case tooLarge:
		finding = fmt.Sprintf("The outcome of the implementer is larger than %d KiB.", maxOutcome>>10)
	case job.State == events.JobStateTimedOut:
		finding = "The implementer took too long, and was stopped."
	case o.Status == "needs_fact":
		question := "The implementer needs to know: " + o.needs()
		return w, []events.Event{cost, events.RunFactsRecorded{Facts: append(r.p.Facts, question)},
			events.DecisionRaised{Decision: events.NewID(r.Now()), About: events.FactReview, Question: question}}, nil
	case o.Status == "gave_up":
		return w, append([]events.Event{cost}, failed(r.p, events.FailGaveUp, "The implementer gave up: "+o.Summary)...), nil
	case o.Status != "done":
		finding = r.unfinished(ctx, id, o)
	}
	if finding != "" {
		return w, append([]events.Event{cost}, again(r.p, Surroundings{Repo: r.repo}, events.FailGaveUp, finding).Record...), nil
	}
	diff, err := r.readFile(ctx, id, diffFile, maxDiff)
	leaked := secrets.in(diff)
	switch {
	case errors.Is(err, errNoFile) && r.refusedChange(ctx, id):
		return w, append([]events.Event{cost}, failed(r.p, events.FailGuardrails, "The change contains the value of a job secret.")...), nil
	case errors.Is(err, errNoFile):
		reason := "Nothing is known of what changed. The log of the job says why, unless svc-runner on the build machine is too old."
		return w, append([]events.Event{cost}, failed(r.p, events.FailSurroundings, reason)...), nil
	case errors.Is(err, artifacts.ErrFileTooLarge):
		finding = fmt.Sprintf("The change is larger than %d MiB.", maxDiff>>20)
		return w, append([]events.Event{cost}, again(r.p, Surroundings{Repo: r.repo}, events.FailGuardrails, finding).Record...), nil
	case err != nil:
		return w, nil, err
	case len(diff) == 0:
		reason := strings.TrimSpace("The implementer changed nothing: " + o.Summary + " " + lastFinding(r.p))
		return w, append([]events.Event{cost}, failed(r.p, events.FailNoChange, reason)...), nil
	case leaked != "":
		reason := "The change contains the value of the job secret " + leaked + "."
		return w, append([]events.Event{cost}, failed(r.p, events.FailGuardrails, reason)...), nil
	}
	w = written{change: diff, message: o.message(r.p.IssueRead.Title), at: id.Time(), parent: job.Head, facts: []events.Event{cost}}
	return w, nil, nil
}

// unfinished returns why a job in which the implementer did not say that it is done is not enough.
func (r *runner) unfinished(ctx context.Context, job events.ID, o outcome) string {
	if o.Summary != "" {
		return "The implementer did not finish: " + o.Summary
	}
	reason := "The implementer ended without saying what it did."
	if tail, err := r.logTail(ctx, job, 500); err == nil && len(tail) > 0 {
		reason += " Its last output: " + clean(strings.ToValidUTF8(string(tail), "�"))
	}
	return reason
}

// missed returns why the implementer was not available to a job: it said so, or printed nothing for too long. It is "" if
// it was available, as far as anybody knows.
func (r *runner) missed(o outcome, job *aggregates.RunJob) string {
	switch {
	case o.Status == "unavailable":
		return cmp.Or(o.Summary, "It does not say why.")
	case o.Status == "" && isIdle(job):
		seconds := cmp.Or(r.repo.Settings.Implementer.IdleSeconds, defaultIdle)
		return fmt.Sprintf("The implementer printed nothing for %s, and was stopped.", countOf(seconds, "second"))
	}
	return ""
}

// note records whether the implementer was available to a job.
func (r *runner) note(ctx context.Context, job events.ID, why string) error {
	_, err := r.Commands.NoteImplementer(ctx, commands.NoteImplementer{Meta: r.meta(), Repo: r.p.Repo.ID, Run: r.run, Job: job, Why: why})
	return fault.Wrap(err, "note the implementer of repository %s", r.p.Repo.ID)
}

// refusedChange reports whether the runner did not keep a change because it has a secret.
func (r *runner) refusedChange(ctx context.Context, id events.ID) bool {
	_, err := r.readFile(ctx, id, refusedFile, maxOutcome)
	return err == nil
}

// secrets returns the secrets of the implementer. Shorter values than minSecret are in many texts.
func (r *runner) secrets(ctx context.Context) (secretValues, error) {
	names := r.repo.Settings.Implementer.Secrets
	if len(names) == 0 {
		return nil, nil
	}
	values, err := r.Secrets(ctx, r.workspace, names)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(values, func(_, value string) bool { return len(value) < minSecret })
	return values, nil
}

const minSecret = 8

// secretValues are the values of secrets by name.
type secretValues map[string]string

// in returns the name of a secret that is in a change, or "".
func (s secretValues) in(diff []byte) string {
	for name, value := range s {
		if bytes.Contains(diff, []byte(value)) {
			return name
		}
	}
	return ""
}

// mask replaces secrets in a text.
func (s secretValues) mask(text string) string {
	for _, value := range s {
		text = strings.ReplaceAll(text, value, "***")
	}
	return text
}

// parseOutcome returns an outcome without anything that may not be stored. It is zero if there is none.
func parseOutcome(text []byte, secrets secretValues) (o outcome) {
	if json.Unmarshal(text, &o) != nil {
		return outcome{}
	}
	o.Summary, o.CommitMessage = clean(secrets.mask(o.Summary)), clean(secrets.mask(o.CommitMessage))
	for i := range o.Facts {
		o.Facts[i].Text = clean(secrets.mask(o.Facts[i].Text))
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

// costOf returns the cost that an implementer reports, or that of the tokens which it reports. What it does not report is
// unknown, and not nothing.
func (o outcome) costOf(job events.ID, prices events.TokenPrices) events.RunCostRecorded {
	e := events.RunCostRecorded{Source: "model", Key: fmt.Sprintf("job/%s/model", job), Unknown: true}
	if c := o.Cost; c != nil {
		e.Quantity = max(0, c.InputTokens) + max(0, c.OutputTokens)
		byTokens := (prices.Input*float64(max(0, c.InputTokens)) + prices.Output*float64(max(0, c.OutputTokens))) / 1e6
		switch {
		case c.Cents != nil && *c.Cents >= 0 && *c.Cents < maxCents:
			e.Cents, e.Unknown = int64(*c.Cents+0.5), false
		case c.Cents == nil && prices != events.TokenPrices{} && e.Quantity > 0 && byTokens < maxCents:
			e.Cents, e.Unknown, e.Basis = int64(math.Ceil(byTokens)), false, events.CostByPrices
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
