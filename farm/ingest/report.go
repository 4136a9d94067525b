package ingest

import (
	"fmt"
	"regexp"
	"slices"

	"svc/aggregates/farm"
	"svc/events"
	"svc/farm/wire"
)

var (
	word   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,99}$`)
	digest = regexp.MustCompile(`^([0-9a-f]{64})?$`)
)

const (
	maxMissing   = 100
	maxArtifacts = 10_000
)

// ReportOf converts a [wire.Event] into a report of its job. One of an unknown kind becomes a report
// without an event for the log: only its number is stored.
func ReportOf(e wire.Envelope, b wire.Event) (*farm.JobReport, error) {
	r := &farm.JobReport{Epoch: e.Epoch, Seq: e.Seq}
	switch b.Kind {
	case wire.EventStarted:
		r.Event = events.JobStarted{}
	case wire.EventCheckedOut:
		r.Event = events.JobCheckedOut{Commit: b.Commit}
	case wire.EventStepStarted:
		r.Event = events.JobStepStarted{Step: b.Step, At: b.StartedAt.UTC()}
	case wire.EventStepFinished:
		if !slices.Contains([]string{"succeeded", "failed", "cancelled", "timed_out"}, b.Outcome) {
			return nil, fmt.Errorf("%w: unknown outcome %.20q of a step", wire.ErrFrame, b.Outcome)
		}
		r.Event = events.JobStepFinished{Step: b.Step, Outcome: b.Outcome, ExitCode: b.ExitCode, At: b.FinishedAt.UTC()}
	case wire.EventFinished:
		r.MissingArtifacts = b.MissingArtifacts
		return r, finishOf(r, b)
	case "":
		return nil, fmt.Errorf("%w: an event without a kind", wire.ErrFrame)
	}
	return r, nil
}

func finishOf(r *farm.JobReport, b wire.Event) error {
	f := events.JobFinished{
		Reported: b.Outcome, Reason: b.Reason, ExitCode: b.ExitCode, Signal: b.Signal, SignalReason: b.SignalReason,
		StartedAt: b.StartedAt.UTC(), FinishedAt: b.FinishedAt.UTC(), CPUMs: b.CPUMs, MaxRSSBytes: b.MaxRSSBytes, Artifacts: b.Artifacts,
	}
	for _, l := range b.LeftOut[:min(len(b.LeftOut), wire.MaxLeftOut)] {
		f.LeftOut = append(f.LeftOut, events.JobLeftOut(l))
	}
	f.LeftOutCount = max(b.LeftOutCount, len(f.LeftOut))
	if b.Log != nil {
		f.Log = events.JobLogSummary{Bytes: b.Log.Bytes, Chunks: b.Log.Chunks, SHA256: b.Log.SHA256, Truncated: b.Log.Truncated}
	}
	switch {
	case !slices.Contains([]string{"succeeded", "failed", "cancelled", "timed_out", "infra"}, b.Outcome):
		return fmt.Errorf("%w: unknown outcome %.20q of a job", wire.ErrFrame, b.Outcome)
	case slices.ContainsFunc([]string{f.Reason, f.Signal, f.SignalReason}, func(s string) bool { return s != "" && !word.MatchString(s) }):
		return fmt.Errorf("%w: a malformed reason", wire.ErrFrame)
	case slices.ContainsFunc(f.LeftOut, func(l events.JobLeftOut) bool { return !word.MatchString(l.Reason) }):
		return fmt.Errorf("%w: a malformed reason", wire.ErrFrame)
	case !digest.MatchString(f.Log.SHA256):
		return fmt.Errorf("%w: a malformed digest", wire.ErrFrame)
	case f.CPUMs < 0 || f.MaxRSSBytes < 0 || f.Log.Bytes < 0 || f.Log.Chunks < 0:
		return fmt.Errorf("%w: a negative number", wire.ErrFrame)
	case f.Artifacts < 0 || f.Artifacts > maxArtifacts || len(r.MissingArtifacts) > maxMissing:
		return fmt.Errorf("%w: too many artifacts", wire.ErrFrame)
	}
	r.Event = f
	return nil
}
