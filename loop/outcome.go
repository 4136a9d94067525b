package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/farm/artifacts"
	"svc/farm/wire"
	"svc/fault"
	"svc/input"
	"svc/loop/outcome"
)

// The files that an implementer leaves.
const (
	diffFile    = wire.OutFolder + "/" + wire.ChangeFile
	outcomeFile = wire.OutFolder + "/" + wire.OutcomeFile
	refusedFile = wire.OutFolder + "/" + wire.RefusedFile
	maxDiff     = 16 << 20
	maxOutcome  = 256 << 10
)

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
	o, cost, err := r.readOutcome(ctx, id, secrets)
	if err != nil {
		return w, nil, err
	}
	if facts, err = r.unsettled(ctx, job, o, cost); facts != nil || err != nil {
		return w, facts, err
	}
	finding := ""
	switch {
	case job.State == events.JobStateTimedOut:
		finding = "The implementer took too long, and was stopped."
	case o.Status != "done":
		finding = r.unfinished(ctx, id, o)
	}
	if finding != "" {
		return w, append([]events.Event{cost}, again(r.p, Surroundings{Repo: r.repo}, events.FailGaveUp, finding).Record...), nil
	}
	diff, err := r.readFile(ctx, id, diffFile, maxDiff)
	leaked := secrets.In(diff)
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
	w = written{change: diff, message: o.Message(r.p.IssueRead.Title), at: id.Time(), parent: job.Head, facts: []events.Event{cost}}
	return w, nil, nil
}

// readOutcome reads the outcome of a job, and what it cost. It has no status if there is none, or one that is too large.
func (r *runner) readOutcome(ctx context.Context, job events.ID, s outcome.Secrets) (o outcome.Outcome, cost events.Event, err error) {
	text, err := r.readFile(ctx, job, outcomeFile, maxOutcome)
	switch {
	case errors.Is(err, artifacts.ErrFileTooLarge):
		o.Summary = fmt.Sprintf("Its outcome is larger than %d KiB.", maxOutcome>>10)
	case err != nil && !errors.Is(err, errNoFile):
		return o, nil, err
	default:
		o = outcome.Parse(text, s)
	}
	return o, o.CostOf(job, r.repo.Settings.Prices), nil
}

// unsettled returns the facts that follow on an outcome that settles nothing, in any stage: the implementer was not available, asks
// people, or has given up. It returns nil for others.
func (r *runner) unsettled(ctx context.Context, job *aggregates.RunJob, o outcome.Outcome, cost events.Event) ([]events.Event, error) {
	if why := r.missed(o, job); why != "" {
		return []events.Event{cost, events.RunWaiting{Code: events.WaitAgent, Detail: why, Job: job.Job}}, r.note(ctx, job.Job, why)
	}
	if r.repo.Missed != "" && o.Status != "" {
		if err := r.note(ctx, job.Job, ""); err != nil {
			return nil, err
		}
	}
	switch {
	case job.State == events.JobStateTimedOut: // whatever it says
	case o.Status == "needs_fact":
		question := "The implementer needs to know: " + o.Needs()
		return []events.Event{cost, events.RunFactsRecorded{Facts: append(r.p.Facts, question)},
			events.DecisionRaised{Decision: events.NewID(r.Now()), About: events.FactReview, Question: question}}, nil
	case o.Status == "gave_up":
		return append([]events.Event{cost}, failed(r.p, events.FailGaveUp, "The implementer gave up: "+o.Summary)...), nil
	}
	return nil, nil
}

// unfinished returns why a job in which the implementer did not say that it is done is not enough.
func (r *runner) unfinished(ctx context.Context, job events.ID, o outcome.Outcome) string {
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
func (r *runner) missed(o outcome.Outcome, job *aggregates.RunJob) string {
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
func (r *runner) secrets(ctx context.Context) (outcome.Secrets, error) {
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

// clean returns text from outside as it may be stored.
func clean(text string) string { return outcome.Clean(text) }

func cleanAll(texts []string) (list []string) {
	for _, t := range texts[:min(len(texts), maxLabels)] {
		list = append(list, clean(t))
	}
	return list
}

// maxLabels is how many labels of an issue are kept.
const maxLabels = 100

func mask(text string) string { return input.MaskTokens(text) }
