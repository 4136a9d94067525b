package rest

import (
	"context"
	"log/slog"
	"testing"
)

// Whatever is called first finds what it works with.
func TestAServerRunsBeforeItHasAHandler(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s := &Server{Log: slog.New(slog.DiscardHandler)}
	s.Run(ctx)
	s.Bounds()
}
