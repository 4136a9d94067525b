package config

import (
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/stretchr/testify/require"
)

func TestMemoryStaysWithinTheContainers(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	const mib = 1 << 20
	for name, c := range map[string]struct {
		container uint64
		err       error
		environ   string
		most      int64
		want      int64
		said      string
	}{
		"a container's":                {container: 1000 * mib, want: 900 * mib, said: "memory is limited"},
		"a container without one":      {err: memlimit.ErrNoLimit, want: math.MaxInt64},
		"no container":                 {err: memlimit.ErrNoCgroup, want: math.MaxInt64},
		"no Linux":                     {err: memlimit.ErrCgroupsNotSupported, want: math.MaxInt64},
		"one that cannot be read":      {err: errors.New("permission denied"), want: math.MaxInt64, said: "level=WARN"},
		"the program's own":            {err: memlimit.ErrNoLimit, most: 500 * mib, want: 500 * mib, said: "memory is limited"},
		"the program's own is smaller": {container: 1000 * mib, most: 500 * mib, want: 500 * mib},
		"the container's is smaller":   {container: 100 * mib, most: 500 * mib, want: 90 * mib},
		"the operator's":               {container: 1000 * mib, environ: "700MiB", most: 500 * mib, want: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", c.environ)
			debug.SetMemoryLimit(math.MaxInt64) // the runtime reads the variable only when a program starts
			var said strings.Builder
			limitMemory(t.Context(), slog.New(slog.NewTextHandler(&said, nil)), c.most, func() (uint64, error) { return c.container, c.err })
			require.Equal(t, c.want, debug.SetMemoryLimit(-1))
			require.Contains(t, said.String(), c.said)
		})
	}
}
