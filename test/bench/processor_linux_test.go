package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a turn does before or after its operations belongs to their cost.
func TestProcessorTimeIsOfTheWholeTurn(t *testing.T) {
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
