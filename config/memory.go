package config

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"slices"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryPart is how much of the container's memory Go may have. The rest is for
// what Go does not count, such as the program itself.
const memoryPart = 0.9

// LimitMemory has the program collect its memory as often as it takes to stay
// below nine tenths of what its container (cgroup v1 or v2) may have and, unless
// that is 0, below most bytes. GOMEMLIMIT stands in the place of both.
func LimitMemory(ctx context.Context, log *slog.Logger, most int64) {
	limitMemory(ctx, log, most, memlimit.FromCgroup)
}

func limitMemory(ctx context.Context, log *slog.Logger, most int64, container memlimit.Provider) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return // the runtime has read it
	}
	limit := int64(math.MaxInt64)
	switch has, err := container(); {
	case err == nil:
		limit = int64(memoryPart * float64(min(has, math.MaxInt64/2)))
	case !slices.ContainsFunc(noLimit, func(none error) bool { return errors.Is(err, none) }):
		log.WarnContext(ctx, "the container's memory limit is not known", "err", err)
	}
	if most > 0 {
		limit = min(limit, most)
	}
	if limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit)
		log.InfoContext(ctx, "memory is limited", "bytes", limit)
	}
}

// noLimit are the ways to say that there is none.
var noLimit = []error{memlimit.ErrNoLimit, memlimit.ErrNoCgroup, memlimit.ErrCgroupsNotSupported}
