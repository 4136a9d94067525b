package loop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"

	"svc/aggregates"
	"svc/events"
)

// failureLines is how many lines at the end of a log tell failures apart.
const failureLines = 100

// variable is what differs in the logs of the same failure: names of temporary files, ids, durations and times, addresses, hashes
// and numbers.
var variable = regexp.MustCompile(`(?:/private)?/(?:tmp|var/tmp|var/folders)/[^\s:'",)]*` +
	`|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?:[0-9]+(?:\.[0-9]+)?(?:ms|µs|ns|h|m|s)\b)+` +
	`|(?:0[xX])?[0-9a-fA-F]*[0-9][0-9a-fA-F]*(?:[.,:][0-9]+)*`)

// fingerprint tells by the end of its log how a job failed. It is "" if the job printed nothing, which says nothing.
func fingerprint(log []byte) string {
	text := bytes.TrimSpace(variable.ReplaceAll(log, []byte("#")))
	if len(text) == 0 {
		return ""
	}
	lines := bytes.Split(text, []byte("\n"))
	if len(log) >= maxLogTail { // the first line is a part of one
		lines = lines[1:]
	}
	text = bytes.Join(lines[max(0, len(lines)-failureLines):], []byte("\n"))
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// failureOf returns the fingerprint of a job's failure. It is "" for a job that has not failed.
func (r *runner) failureOf(ctx context.Context, job events.ID) (string, error) {
	s, err := r.Commands.RunJobState(ctx, r.workspace, job)
	if err != nil || s.State != events.JobStateFailed || s.Epoch == 0 {
		return "", err
	}
	tail, err := r.Logs.Tail(ctx, r.workspace, job, s.Epoch, maxLogTail)
	return fingerprint(tail), err
}

// isSameFailure reports whether a job failed in the round before in the same way.
func isSameFailure(p *aggregates.Progress, j *aggregates.RunJob) bool {
	return j.Failure != "" && slices.ContainsFunc(p.Jobs, func(o aggregates.RunJob) bool {
		return o.Purpose != events.JobImplements && o.Name == j.Name && o.Round == j.Round-1 && o.Failure == j.Failure
	})
}
