package executor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/runner/sandbox"
)

// A pattern that anybody may submit takes no time that grows exponentially.
func TestPatternsWithManyFoldersAreFast(t *testing.T) {
	t.Parallel()
	began := time.Now()
	name := strings.Split(strings.Repeat("f/", 40)+"file", "/")
	require.False(t, newPattern(strings.Repeat("**/", 15)+"none").matches(name))
	require.False(t, newPattern(strings.Repeat("**/f/", 15)+"none").matches(name))
	require.True(t, newPattern(strings.Repeat("**/f/", 15)+"file").matches(name))
	require.Less(t, time.Since(began), time.Second)
}

func TestCollectingEndsWithContext(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(work, "big"), make([]byte, 1<<20), 0o600))
	stop := &sandbox.Stop{Reason: "fenced"}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	root, err := os.OpenRoot(work)
	require.NoError(t, err)
	defer root.Close()
	_, err = (&collector{root: root}).list(ctx)
	require.ErrorIs(t, err, stop)
	from, err := root.Open("big")
	require.NoError(t, err)
	defer from.Close()
	require.ErrorIs(t, (&ManifestFile{}).copy(ctx, from, filepath.Join(t.TempDir(), "f1"), 1<<30), stop)
}

func TestWhenCollectingIsGivenUp(t *testing.T) {
	for _, reason := range []string{ReasonFenced, ReasonAgentStop, ReasonCancel} {
		synctest.Test(t, func(t *testing.T) {
			killed, kill := context.WithCancelCause(t.Context())
			var log bytes.Buffer
			x := &execution{out: newOutput(&reporter{to: &log}, 1<<20)}
			ctx, done := x.collecting(killed)
			time.Sleep(slowCollect + time.Second)
			kill(&sandbox.Stop{Reason: reason})
			synctest.Wait()
			if reason == ReasonCancel {
				require.NoError(t, ctx.Err())
				time.Sleep(collectTimeout)
				synctest.Wait()
			}
			require.EqualError(t, context.Cause(ctx), "stopped: "+reason)
			done()
			x.out.close()
			require.Contains(t, log.String(), "[collecting artifacts]")
		})
	}
}
