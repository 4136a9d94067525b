package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// RemoveAll is [Children.RemoveAll] for a process that adopts no orphans.
func RemoveAll(dir string) error { return new(Children).RemoveAll(dir) }

// RemoveAll removes a folder, even if steps have removed the write permission of folders in it, or
// have nested them so deep that their paths are too long. os.RemoveAll would need an open file for each
// level; chmod and rm need only a few.
func (c *Children) RemoveAll(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	run := func(program string, args ...string) ([]byte, error) {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, program, append(args, "--", dir)...) //nolint:gosec // the runner's own folder
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                // Ctrl-C stops the runner, which removes folders first
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := c.Start(cmd); err != nil {
			return nil, err
		}
		err := c.Wait(cmd)
		return out.Bytes(), err
	}
	if _, err := run("rm", "-rf"); err == nil {
		return nil
	}
	_, _ = run("chmod", "-R", "u+rwx") // what it cannot change rm reports
	if out, err := run("rm", "-rf"); err != nil {
		return fmt.Errorf("remove folder of the job %s: %w: %.500s", dir, err, out)
	}
	return nil
}

// removeTimeout is the time limit for removing a job's folder. What is left is removed at the next start.
const removeTimeout = 10 * time.Minute
