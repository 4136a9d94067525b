package executor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"svc/farm/runner/sandbox"
)

const (
	diskCheckEvery = 2 * time.Second
	diskCheckShare = 50               // of the time at most one part is spent on measuring
	diskCheckPause = 30 * time.Second // the longest time between two measurements

	// maxDepth is how deep a job may nest folders. The time and memory that it takes to visit a folder
	// grow with its depth.
	maxDepth = 256
)

// startWatch watches the job's disk until stop is called, which returns when nothing more is reported.
func (x *execution) startWatch(killed context.Context) (stop func()) {
	if x.DiskLimit <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(killed)
	var watch sync.WaitGroup
	watch.Go(func() { x.watchDisk(ctx) })
	return func() { cancel(); watch.Wait() }
}

// watchDisk kills the job when it takes up more disk than it may, or when its folders are nested too
// deep to be measured. It measures the job's folder and its spool, where its artifacts are, again and
// again until ctx ends.
func (x *execution) watchDisk(ctx context.Context) {
	for pause := diskCheckEvery; sleep(ctx, pause); {
		began := time.Now()
		used, tooDeep := diskUsage(ctx, x.DiskLimit, x.Dir, filepath.Dir(x.Files))
		why := ""
		switch {
		case ctx.Err() != nil:
			return
		case tooDeep:
			why = fmt.Sprintf("the job has folders nested more than %d deep", maxDepth)
		case used > x.DiskLimit:
			why = fmt.Sprintf("the job takes up %d MiB of disk, and may take up %d MiB", used>>20, x.DiskLimit>>20)
		}
		if why != "" {
			x.notice(why)
			x.killNow(&sandbox.Stop{Reason: reasonDisk})
			return
		}
		pause = min(max(diskCheckEvery, diskCheckShare*time.Since(began)), diskCheckPause)
	}
}

// diskUsage returns how many bytes of disk the files in folders take up, at least as far as that
// exceeds limit. What cannot be read does not count, nor does what symbolic links lead to. tooDeep
// means that a folder is nested more than maxDepth deep, at which diskUsage gives up.
func diskUsage(ctx context.Context, limit int64, folders ...string) (bytes int64, tooDeep bool) {
	type inode struct{ device, number uint64 }
	linked := map[inode]bool{} // files with several names that were counted
	for _, dir := range folders {
		root, err := os.OpenRoot(dir)
		if err != nil {
			continue
		}
		_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil || bytes > limit || tooDeep:
				return fs.SkipAll
			case err != nil:
				return nil // it is gone, or a step has removed the permission
			}
			tooDeep = strings.Count(name, "/") >= maxDepth
			info, err := d.Info()
			if err != nil {
				return nil //nolint:nilerr // it is gone
			}
			s, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return nil
			}
			if s.Nlink > 1 && !d.IsDir() {
				id := inode{uint64(s.Dev), s.Ino} //nolint:unconvert // of another type on other systems
				if linked[id] {
					return nil
				}
				linked[id] = true
			}
			bytes += s.Blocks * 512
			return nil
		})
		_ = root.Close()
	}
	return bytes, tooDeep
}
