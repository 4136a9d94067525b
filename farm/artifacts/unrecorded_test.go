package artifacts_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/artifacts"
)

// Of a job whose upload was given up the files go that no event names, a day after the last of
// them came; of any other job nothing does.
func TestSweepUnrecorded(t *testing.T) {
	day := artifacts.Unrecorded
	away := errors.New("the log is away")
	for name, c := range map[string]struct {
		after   time.Duration
		givenUp bool
		keep    int // of two whole files
		err     error
		left    int // files on the disk: of each whole one two, and a chunk of another
	}{
		"a file that no event names":     {day + time.Hour, true, 1, nil, 2},
		"none that an event names":       {day + time.Hour, true, 0, nil, 0},
		"too young":                      {day - time.Hour, true, 1, nil, 5},
		"not given up, or nobody's":      {day + time.Hour, false, 0, nil, 5},
		"nobody knows what events there": {day + time.Hour, true, 0, away, 5},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			ids := whole(t, s, []byte("kept"), []byte("sealed, and no event says so"))
			a := content(3, 2*chunk)
			require.NoError(t, send(t.Context(), resume(t, s, manifest(a)), 0, a, 0))
			require.Len(t, files(t, dir), 5)
			put(t, s, "w/j/x", "not of a job") // which is never asked about
			asked := func(_ context.Context, workspace, id events.ID) ([]events.ID, bool, error) {
				require.Equal(t, [2]events.ID{job.Workspace, job.ID}, [2]events.ID{workspace, id})
				return ids[:c.keep], c.givenUp, c.err
			}
			for range 2 { // the second time changes nothing
				_, err := artifacts.SweepUnrecorded(t.Context(), s, asked, time.Now().Add(c.after), time.Nanosecond)
				require.ErrorIs(t, err, c.err)
				require.Len(t, files(t, dir), c.left+1)
			}
			if c.keep > 0 {
				require.Equal(t, []byte("kept"), stored(t, s, ids[0]))
			}
			if c.left == 0 {
				require.NoDirExists(t, filepath.Join(dir, job.Workspace.String(), job.ID.String()))
			}
		})
	}
}

// It ends when its owner ends it, however long it would rest.
func TestSweepUnrecordedEnds(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	whole(t, s, []byte("a"))
	ctx, stop := context.WithCancel(t.Context())
	_, err := artifacts.SweepUnrecorded(ctx, s, func(context.Context, events.ID, events.ID) ([]events.ID, bool, error) {
		stop()
		return nil, false, nil
	}, time.Now().Add(2*artifacts.Unrecorded), time.Hour)
	require.ErrorIs(t, err, context.Canceled)
	_, err = os.Stat(filepath.Join(dir, job.Workspace.String(), job.ID.String()))
	require.NoError(t, err)
}

// A store of which one folder cannot be read.
type partly struct {
	artifacts.Store
	bad string
	err error
}

func (s partly) List(ctx context.Context, folder string) ([]artifacts.Object, error) {
	if folder == s.bad {
		return nil, s.err
	}
	return s.Store.List(ctx, folder)
}

// A folder that cannot be read keeps no other from being swept, wherever it comes.
func TestSweepUnrecordedGoesOn(t *testing.T) {
	broken := errors.New("the disk is")
	for _, bad := range []events.ID{{0: 1}, {0: 255}} {
		dir := t.TempDir()
		s := open(t, dir)
		whole(t, s, []byte("a"))
		folder := job.Workspace.String() + "/" + bad.String()
		put(t, s, folder+"/x", "")
		gone := func(context.Context, events.ID, events.ID) ([]events.ID, bool, error) { return nil, true, nil }
		n, err := artifacts.SweepUnrecorded(t.Context(), partly{s, folder, broken}, gone, time.Now().Add(2*artifacts.Unrecorded), time.Nanosecond)
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, artifacts.ErrLog)
		require.Equal(t, 2, n)
		require.Equal(t, []string{"x"}, names(t, s, folder))
	}
}
