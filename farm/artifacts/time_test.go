package artifacts_test

import (
	"context"
	"errors"
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
				return nil, true, errors.New("the log is away")
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
