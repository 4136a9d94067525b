package main

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a turn does before or after its operations belongs to their cost.
func TestProcessorTimeIsOfTheWholeTurn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	const used = 10 * clockTick
	x, err := timeTurn(func() (work, error) {
		from, err := processorTime()
		for now := from; err == nil && now < from+used; {
			now, err = processorTime()
		}
		return work{5, time.Millisecond}, err
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, x.cpuEach, used/5)
}

func TestFolderIsRemovedIfPostgreSQLDoesNotStart(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newSuite(ctx, "")
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}
