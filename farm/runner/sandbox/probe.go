package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const probeTimeout = 20 * time.Second

// Probe runs a command in a temporary sandbox below c.Dir, and returns an error if that does not
// work.
func Probe(ctx context.Context, c Config) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("probe sandbox: %w", err)
	}
	dir, err := os.MkdirTemp(c.Dir, "probe-")
	if err != nil {
		return fmt.Errorf("probe sandbox: %w", err)
	}
	defer os.RemoveAll(dir)
	c.Dir, c.Name = filepath.Join(dir, "job"), "probe-"+filepath.Base(dir)
	j, err := New(c)
	if err != nil {
		return err
	}
	defer func() { _ = j.Remove() }()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var out bytes.Buffer
	r, err := j.Run(ctx, ctx, Command{Args: []string{"/bin/sh", "-c", "echo ready >probe && cat probe"}, Env: j.Env(), Output: &out})
	if err != nil {
		return err
	}
	if text := strings.TrimSpace(out.String()); r.ExitCode != 0 || text != "ready" {
		return fmt.Errorf("sandbox %s: exit code %d: %s", c.Kind, r.ExitCode, text)
	}
	return nil
}
