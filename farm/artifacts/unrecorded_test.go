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
	"svc/fault"
)

// Of a job whose upload was abandoned, files without an event are removed a day after the last
// chunk arrived. Nothing of other jobs is removed.
func TestSweepUnrecorded(t *testing.T) {
	day := artifacts.UnrecordedRetention
	away := errors.New("the log is away")
	for name, c := range map[string]struct {
		after   time.Duration
		givenUp bool
		keep    int // of two complete files
		err     error
		left    int // files on disk: two per complete file, and a chunk of another file
	}{
		"file without event is removed": {day + time.Hour, true, 1, nil, 2},
		"file with event is kept":       {day + time.Hour, true, 0, nil, 0},
		"too recent":                    {day - time.Hour, true, 1, nil, 5},
		"not abandoned, or unknown job": {day + time.Hour, false, 0, nil, 5},
		"log does not answer":           {day + time.Hour, true, 0, away, 5},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			ids := uploadAll(t, s, []byte("kept"), []byte("sealed, and no event says so"))
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

// The sweep ends with its context, even in a long pause.
func TestSweepUnrecordedStopsWithContext(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	uploadAll(t, s, []byte("a"))
	ctx, stop := context.WithCancel(t.Context())
	_, err := artifacts.SweepUnrecorded(ctx, s, func(context.Context, events.ID, events.ID) ([]events.ID, bool, error) {
		stop()
		return nil, false, nil
	}, time.Now().Add(2*artifacts.UnrecordedRetention), time.Hour)
	require.ErrorIs(t, err, context.Canceled)
	_, err = os.Stat(filepath.Join(dir, job.Workspace.String(), job.ID.String()))
	require.NoError(t, err)
}

// A brokenFolderStore is a store with one unreadable folder.
type brokenFolderStore struct {
	artifacts.Store
	bad string
	err error
}

func (s brokenFolderStore) List(ctx context.Context, folder string) ([]artifacts.Object, error) {
	if folder == s.bad {
		return nil, s.err
	}
	return s.Store.List(ctx, folder)
}

// A folder that cannot be read does not stop the sweep of others, in whatever order they come.
func TestSweepUnrecordedContinuesAfterError(t *testing.T) {
	broken := errors.New("the disk is")
	for _, bad := range []events.ID{{0: 1}, {0: 255}} {
		dir := t.TempDir()
		s := open(t, dir)
		uploadAll(t, s, []byte("a"))
		folder := job.Workspace.String() + "/" + bad.String()
		put(t, s, folder+"/x", "")
		gone := func(context.Context, events.ID, events.ID) ([]events.ID, bool, error) { return nil, true, nil }
		n, err := artifacts.SweepUnrecorded(t.Context(), brokenFolderStore{s, folder, broken}, gone,
			time.Now().Add(2*artifacts.UnrecordedRetention), time.Nanosecond)
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, artifacts.ErrLog)
		require.Equal(t, 2, n)
		require.Equal(t, []string{"x"}, names(t, s, folder))
	}
}

// A job whose events cannot be used does not stop the sweep of others, in whatever order they come. It ends if the log
// does not answer.
func TestSweepUnrecordedContinuesAfterUnusableJob(t *testing.T) {
	unusable := errors.New("an event of a newer build")
	for _, bad := range []events.ID{{0: 1}, {0: 255}} {
		s := open(t, t.TempDir())
		uploadAll(t, s, []byte("a"))
		put(t, s, job.Workspace.String()+"/"+bad.String()+"/x", "")
		said := unusable
		abandoned := func(_ context.Context, _, id events.ID) ([]events.ID, bool, error) {
			if id == bad {
				return nil, true, said
			}
			return nil, true, nil
		}
		sweep := func() (int, error) {
			return artifacts.SweepUnrecorded(t.Context(), s, abandoned, time.Now().Add(2*artifacts.UnrecordedRetention), time.Nanosecond)
		}
		n, err := sweep()
		require.ErrorIs(t, err, unusable)
		require.NotErrorIs(t, err, artifacts.ErrLog)
		require.Equal(t, 2, n)
		require.Equal(t, []string{"x"}, names(t, s, job.Workspace.String()+"/"+bad.String()))
		said = fault.ErrUnavailable
		_, err = sweep()
		require.ErrorIs(t, err, artifacts.ErrLog)
	}
}
