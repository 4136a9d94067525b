package farmviews

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

func TestMissingLabels(t *testing.T) {
	t.Parallel()
	plain := waitRunner{Labels: []string{"os=linux", "sandbox=none"}}
	large := waitRunner{Labels: []string{"gpu=h100", "os=linux", "sandbox=none"}}
	reserved := waitRunner{Labels: []string{"os=linux", "sandbox=bubblewrap"}, Exclusive: []string{"os=linux"}}
	boxed := events.JobRequires{Labels: []string{"sandbox=bubblewrap"}}
	either := events.JobRequires{Labels: []string{"sandbox=bubblewrap"}, AnyOf: [][]string{{"gpu=a100", "os=linux"}, {"gpu=h100"}}}
	for name, c := range map[string]struct {
		runners  []waitRunner
		required events.JobRequires
		want     []string
	}{
		"no runner":              {nil, boxed, []string{"sandbox=bubblewrap"}},
		"another sandbox":        {[]waitRunner{plain}, boxed, []string{"sandbox=bubblewrap"}},
		"the closest runner":     {[]waitRunner{plain, large}, either, []string{"sandbox=bubblewrap"}},
		"the closest set":        {[]waitRunner{plain}, either, []string{"sandbox=bubblewrap", "gpu=a100"}},
		"reserved for others":    {[]waitRunner{reserved}, boxed, []string{}},
		"it waits for a slot":    {[]waitRunner{plain}, events.JobRequires{Labels: []string{"sandbox=none"}}, []string{}},
		"reserved, but not ours": {[]waitRunner{reserved, plain}, boxed, []string{}},
	} {
		w := JobWaits{runners: c.runners}
		require.Equal(t, c.want, w.Missing(Job{State: events.JobStateQueued, Required: c.required}), name)
	}
	require.Empty(t, JobWaits{}.Missing(Job{State: events.JobStateRunning, Required: boxed}))
}

// A job without a concurrency key waits for none, though its limit is 0.
func TestReasonWithoutConcurrencyKey(t *testing.T) {
	t.Parallel()
	job := Job{State: events.JobStateQueued, Required: events.JobRequires{Labels: []string{"sandbox=none"}}}
	w := JobWaits{runners: []waitRunner{{Labels: []string{"sandbox=none"}}}}
	require.Equal(t, WaitsForSlot, w.Reason(job))
	w.runners[0].Free = true
	require.Empty(t, w.Reason(job))
}
