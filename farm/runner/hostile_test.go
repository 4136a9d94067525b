//go:build linux

package runner

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

// A job of kind none stops its first process, leaves another without environment in a session of
// its own, and kills the process of the job.
func TestNothingOutlivesHostileJob(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	installed(t, f, os.Geteuid() == 0).start()
	require.Eventually(t, f.check(func() bool { return len(f.beats) > 0 }), waitLimit, time.Millisecond)
	other := f.assign(wire.Assign{Steps: steps("echo ready; while [ ! -e ../go ]; do sleep 0.05; done")})
	require.Eventually(t, func() bool { return strings.Contains(f.log(other), "ready") }, waitLimit, time.Millisecond)
	left := fmt.Sprintf("sleep 6000.%d", rand.Int64())
	k := f.assign(wire.Assign{Steps: steps(`job=$(cut -d ' ' -f 4 /proc/$PPID/stat)
		setsid env -i sh -c "trap '' TERM HUP; ` + left + ` & ` + left + `" &
		kill -STOP $PPID; kill -9 $job; sleep 600`)})
	end := f.ended(k)
	require.Equal(t, "infra", end.Outcome)
	pattern := strings.ReplaceAll(left, " ", "\x00")
	require.Empty(t, processesWith(pattern), "the end is reported when nothing is left")
	require.Empty(t, processesWith(left))
	require.True(t, f.with(other, func(j *farmJob) bool { return j.end() == nil })(), "the other job goes on")
	require.NotEmpty(t, processesWith(other.name()))
}
