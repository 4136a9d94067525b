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

// memoryShare is the share of the container's memory that Go may use. The rest is for what
// Go does not count, such as the program itself.
const memoryShare = 0.9

// LimitMemory sets Go's memory limit to nine tenths of the container's limit (cgroup v1 or
// v2) or, if that is lower and not 0, to most bytes. It does nothing if GOMEMLIMIT is set.
func LimitMemory(ctx context.Context, log *slog.Logger, most int64) {
	limitMemory(ctx, log, most, memlimit.FromCgroup)
}

func limitMemory(ctx context.Context, log *slog.Logger, most int64, container memlimit.Provider) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return // the runtime has applied it
	}
	limit := int64(math.MaxInt64)
	switch has, err := container(); {
	case err == nil:
		limit = int64(memoryShare * float64(min(has, math.MaxInt64/2)))
	case !slices.ContainsFunc(noLimitErrors, func(none error) bool { return errors.Is(err, none) }):
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

// noLimitErrors are the errors which mean that there is no limit.
var noLimitErrors = []error{memlimit.ErrNoLimit, memlimit.ErrNoCgroup, memlimit.ErrCgroupsNotSupported}
