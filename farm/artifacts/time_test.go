package artifacts_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/artifacts"
	"svc/fault"
)

// Old files are compared with the log once a day, only by the leader, and not after the service
// ends.
func TestUnrecordedFilesAreSweptOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		folder := filepath.Join(dir, events.NewID(time.Now()).String(), events.NewID(time.Now()).String())
		require.NoError(t, os.MkdirAll(folder, 0o700))
		seal, text := filepath.Join(folder, events.NewID(time.Now()).String()), `{"size":0,"chunkBytes":1}`
		require.NoError(t, os.WriteFile(seal, []byte(text), 0o600))
		old := time.Now().Add(-2 * artifacts.UnrecordedRetention)
		require.NoError(t, os.Chtimes(seal, old, old))
		store, err := artifacts.OpenDirectory(dir)
		require.NoError(t, err)
		defer store.Close()

		var leads atomic.Bool
		var asked atomic.Int32
		s := artifacts.Sweeper{Store: store, Leads: leads.Load, Log: slog.New(slog.DiscardHandler)}
		s.Abandoned = func(context.Context, events.ID, events.ID) ([]events.ID, bool, error) {
			n := asked.Add(1)
			if n == 3 {
				return nil, true, fault.ErrUnavailable
			}
			return nil, n == 4, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		time.Sleep(3*artifacts.UnrecordedRetention + artifacts.SweepInterval/2) // between two rounds, as all that follows
		require.Zero(t, asked.Load(), "another process leads")
		leads.Store(true)
		time.Sleep(2 * artifacts.SweepInterval)
		require.EqualValues(t, 1, asked.Load())
		time.Sleep(artifacts.UnrecordedRetention)
		require.EqualValues(t, 2, asked.Load())
		require.FileExists(t, seal)
		time.Sleep(artifacts.UnrecordedRetention)
		require.EqualValues(t, 4, asked.Load(), "again, as soon as it is looked for anything")
		require.NoFileExists(t, seal)
		stop()
		running.Wait()
		require.EqualValues(t, 4, asked.Load())
	})
}

// Unfinished uploads are removed by the leader alone, which reads the seals of a folder again only after
// something was put there, except for that of a damaged seal.
func TestUnfinishedUploadsAreSweptByLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		folder := filepath.Join(dir, events.NewID(time.Now()).String(), events.NewID(time.Now()).String())
		require.NoError(t, os.MkdirAll(folder, 0o700))
		write := func(name, text string, at time.Time) string {
			name = filepath.Join(folder, name)
			require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
			require.NoError(t, os.Chtimes(name, at, at))
			return name
		}
		old := time.Now().Add(-2 * artifacts.ChunkRetention)
		seal := events.NewID(time.Now()).String()
		sealed := write(seal, `{"size":1,"chunkBytes":1,"chunks":["a"]}`, old)
		chunk := write(seal+".0.0.a", "x", old)
		broken := write(events.NewID(time.Now()).String()+".0.0.b", "x", old)
		directory, err := artifacts.OpenDirectory(dir)
		require.NoError(t, err)
		defer directory.Close()

		damaged := events.NewID(time.Now()).String()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "w", "j"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "w", "j", damaged), []byte("{"), 0o600))

		store := &countingStore{Store: directory, damaged: "w/j/" + damaged}
		var leads atomic.Bool
		s := artifacts.Sweeper{Store: store, Leads: leads.Load, Log: slog.New(slog.DiscardHandler)}
		s.Abandoned = func(context.Context, events.ID, events.ID) ([]events.ID, bool, error) { return nil, false, nil }
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		time.Sleep(5*artifacts.SweepInterval + artifacts.SweepInterval/2)
		require.Zero(t, store.opened.Load(), "another process leads")
		require.FileExists(t, broken)
		leads.Store(true)
		time.Sleep(5 * artifacts.SweepInterval)
		require.EqualValues(t, 1, store.opened.Load())
		require.EqualValues(t, 5, store.openedDamaged.Load())
		require.NoFileExists(t, broken)

		broken, left := write(events.NewID(time.Now()).String()+".0.0.c", "x", time.Now()), write(".put-1", "", time.Now())
		time.Sleep(artifacts.ChunkRetention + artifacts.SweepInterval)
		n := store.opened.Load()
		require.Greater(t, n, int32(1))
		require.NoFileExists(t, broken)
		require.NoFileExists(t, left)
		left = write(".put-2", "", time.Now())
		time.Sleep(artifacts.ChunkRetention + artifacts.SweepInterval)
		require.Equal(t, n, store.opened.Load())
		require.NoFileExists(t, left)
		require.FileExists(t, sealed)
		require.FileExists(t, chunk)
		stop()
		running.Wait()
	})
}

type countingStore struct {
	artifacts.Store
	damaged               string // key of a seal that is counted separately
	opened, openedDamaged atomic.Int32
}

func (s *countingStore) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	if key == s.damaged {
		s.openedDamaged.Add(1)
	} else {
		s.opened.Add(1)
	}
	return s.Store.Open(ctx, key, offset)
}
