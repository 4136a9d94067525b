package engine

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/engine/client"
)

// try runs a step.
func try[In, Out any](b *bench, kind client.Kind, in In, change string) (Out, error) {
	var body io.Reader
	if change != "" {
		body = strings.NewReader(change)
	}
	return client.Do[In, Out](context.Background(), b.Client, kind, b.step, in, body, nil)
}

// do runs a step that has to succeed.
func do[In, Out any](t *testing.T, b *bench, kind client.Kind, in In) Out {
	t.Helper()
	out, err := try[In, Out](b, kind, in, "")
	require.NoError(t, err)
	return out
}

func (b *bench) tryCommit(in client.CommitInput, change string) (client.CommitResult, error) {
	return try[client.CommitInput, client.CommitResult](b, client.StepCommit, in, change)
}

func (b *bench) commit(t *testing.T, in client.CommitInput, change string) client.CommitResult {
	t.Helper()
	out, err := b.tryCommit(in, change)
	require.NoError(t, err)
	return out
}

func (b *bench) probe(t *testing.T, in client.ProbeInput) client.ProbeResult {
	t.Helper()
	return do[client.ProbeInput, client.ProbeResult](t, b, client.StepProbe, in)
}

func (b *bench) issues(t *testing.T, in client.IssuesInput) client.IssuesResult {
	t.Helper()
	return do[client.IssuesInput, client.IssuesResult](t, b, client.StepIssues, in)
}

func (b *bench) issue(t *testing.T, in client.IssueInput) client.IssueResult {
	t.Helper()
	return do[client.IssueInput, client.IssueResult](t, b, client.StepIssue, in)
}

func (b *bench) tryIssue(in client.IssueInput) (client.IssueResult, error) {
	return try[client.IssueInput, client.IssueResult](b, client.StepIssue, in, "")
}

func (b *bench) inspect(t *testing.T, in client.InspectInput) client.InspectResult {
	t.Helper()
	return do[client.InspectInput, client.InspectResult](t, b, client.StepInspect, in)
}

func (b *bench) tryInspect(in client.InspectInput) (client.InspectResult, error) {
	return try[client.InspectInput, client.InspectResult](b, client.StepInspect, in, "")
}

func (b *bench) propose(t *testing.T, in client.ProposeInput) client.ProposeResult {
	t.Helper()
	return do[client.ProposeInput, client.ProposeResult](t, b, client.StepPropose, in)
}

func (b *bench) tryPropose(in client.ProposeInput) (client.ProposeResult, error) {
	return try[client.ProposeInput, client.ProposeResult](b, client.StepPropose, in, "")
}

func (b *bench) look(t *testing.T, in client.LookInput) client.LookResult {
	t.Helper()
	return do[client.LookInput, client.LookResult](t, b, client.StepLook, in)
}

func (b *bench) tryLook(in client.LookInput) (client.LookResult, error) {
	return try[client.LookInput, client.LookResult](b, client.StepLook, in, "")
}

func (b *bench) ready(t *testing.T, in client.ReadyInput) client.ReadyResult {
	t.Helper()
	return do[client.ReadyInput, client.ReadyResult](t, b, client.StepReady, in)
}

func (b *bench) tryReady(in client.ReadyInput) (client.ReadyResult, error) {
	return try[client.ReadyInput, client.ReadyResult](b, client.StepReady, in, "")
}

func (b *bench) merge(t *testing.T, in client.MergeInput) client.MergeResult {
	t.Helper()
	return do[client.MergeInput, client.MergeResult](t, b, client.StepMerge, in)
}

func (b *bench) tryMerge(in client.MergeInput) (client.MergeResult, error) {
	return try[client.MergeInput, client.MergeResult](b, client.StepMerge, in, "")
}

func (b *bench) tidy(t *testing.T, in client.TidyInput) client.TidyResult {
	t.Helper()
	return do[client.TidyInput, client.TidyResult](t, b, client.StepTidy, in)
}
