package jobinput_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/jobinput"
	"svc/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// An input is the one that the log names, or missing.
func TestInputs(t *testing.T) {
	t.Parallel()
	in := jobinput.Inputs{DB: pgtest.New(t), Now: func() time.Time { return epoch }}
	ctx, workspace, job := t.Context(), events.NewID(epoch), events.NewID(epoch)
	sum, err := in.Put(ctx, workspace, job, []byte("one"))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		workspace, job events.ID
		sum            string
	}{
		"another workspace": {events.NewID(epoch), job, sum}, "another job": {workspace, events.NewID(epoch), sum},
		"another digest": {workspace, job, jobinput.Sum([]byte("two"))}, "no digest": {workspace, job, ""},
	} {
		_, err := in.Read(ctx, c.workspace, c.job, c.sum)
		require.ErrorIs(t, err, jobinput.ErrMissing, name)
	}
	again, err := in.Put(ctx, workspace, job, []byte("two"))
	require.NoError(t, err)
	_, err = in.Read(ctx, workspace, job, sum)
	require.ErrorIs(t, err, jobinput.ErrMissing, "it was replaced")
	n, err := in.RemoveOld(ctx, epoch, 10)
	require.NoError(t, err)
	require.Zero(t, n)
	text, err := in.Read(ctx, workspace, job, again)
	require.NoError(t, err)
	require.Equal(t, "two", string(text))
	n, err = in.RemoveOld(ctx, epoch.Add(time.Second), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = in.Read(ctx, workspace, job, again)
	require.ErrorIs(t, err, jobinput.ErrMissing)
}
