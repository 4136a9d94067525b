package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"svc/atomicfile"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// A Manifest lists the files to upload. Its JSON is the first part of the upload.
type Manifest struct {
	Epoch int            `json:"epoch"`
	Files []ManifestFile `json:"files"`
}

// A ManifestFile is a file of an artifact, and the size of the pieces in which it is uploaded.
type ManifestFile struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Path       string `json:"path"`
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256"`
	ChunkBytes int64  `json:"chunkBytes"`
	Mode       int    `json:"mode"`
}

const (
	chunkBytes = 8 << 20
	maxMissing = 100 // missing artifacts that are reported by name
)

var errTooMany = errors.New("more files than an upload may have")

// collect keeps what the steps changed, copies the artifacts of a job and reports their manifest. It
// returns the job's end, which is a failure if a required artifact is missing.
func (x *execution) collect(killed context.Context, result wire.Event) wire.Event {
	var want []wire.Artifact
	for _, a := range x.Spec.Artifacts {
		well := result.Outcome == succeeded
		if a.When == "always" || a.When == "failure" && !well || (a.When == "" || a.When == "success") && well {
			want = append(want, a)
		}
	}
	if len(want) == 0 || slices.Contains([]string{ReasonFenced, ReasonAgentStop, reasonDisk}, result.SignalReason) {
		return result
	}
	ctx, done := x.collecting(killed)
	x.keepChange(ctx)
	if err := x.maskOutput(); err != nil {
		x.notice("mask the output: " + err.Error())
	}
	m, missing, left, err := gather(ctx, x.job.Work(), x.job.InWork("."), x.Files, want, x.ArtifactLimit)
	if done(); ctx.Err() != nil && result.Outcome == succeeded {
		result = endOf(sandbox.Result{Stopped: stopCause(context.Cause(ctx))}, false)
	}
	m.Epoch = x.Epoch
	for _, f := range left.files {
		x.notice(fmt.Sprintf("artifact left out: %.200q: %s", f.Path, leftOutText(f)))
		result.LeftOut = append(result.LeftOut, wire.LeftOut{Path: x.masked(f.Path), Reason: f.Reason})
	}
	if more := left.count - len(left.files); more > 0 {
		x.notice(fmt.Sprintf("artifacts left out: and %d more", more))
	}
	result.LeftOutCount = left.count
	if err != nil {
		x.notice("collect artifacts: " + err.Error())
		m.Files, missing = nil, nil
		for _, a := range want {
			if a.Required {
				missing = append(missing, a.Name)
			}
		}
	}
	if len(m.Files) > 0 {
		if err := x.report.json(KindManifest, m); err != nil {
			return result // the supervisor has gone
		}
	}
	result.Artifacts, result.MissingArtifacts = len(m.Files), missing[:min(len(missing), maxMissing)]
	if len(missing) > 0 && result.Outcome == succeeded {
		result.Outcome, result.Reason = failed, "artifact_missing"
		x.notice("required artifacts are missing: " + strings.Join(missing, ", "))
	}
	return result
}

// Durations of collecting artifacts.
const (
	slowCollect    = 10 * time.Second // after which the log says what takes so long
	collectTimeout = 20 * time.Second // after a cancelled job was killed; the service waits for 30 s
)

// collecting returns a context that ends when collecting must be given up, with the [sandbox.Stop]
// that is the cause. The artifacts of a cancelled job are still collected for collectTimeout. done
// must be called at the end.
func (x *execution) collecting(killed context.Context) (ctx context.Context, done func()) {
	ctx, stop := context.WithCancelCause(context.Background())
	finished := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		atKill, slow, late := killed.Done(), time.After(slowCollect), (<-chan time.Time)(nil)
		for {
			select {
			case <-finished:
				return
			case <-slow:
				x.out.note("collecting artifacts")
				continue
			case <-atKill:
				if atKill = nil; stopCause(context.Cause(killed)).Reason == ReasonCancel {
					late = time.After(collectTimeout)
					continue
				}
			case <-late:
			}
			stop(context.Cause(killed))
			return
		}
	})
	return ctx, func() {
		close(finished)
		wait.Wait()
	}
}

// gather copies the files in work that artifacts match into folder, each named by its id. Symbolic links that lead
// to something else in work are followed, and base is what steps call work. It returns the required artifacts
// without any file, and what was left out. Nothing leads out of work, whatever runs there meanwhile. If the files
// exceed limit bytes, or ctx ends, gather fails.
func gather(ctx context.Context, work, base, folder string, artifacts []wire.Artifact, limit int64) (
	m Manifest, missing []string, left leftOut, err error,
) {
	root, err := os.OpenRoot(work)
	if err != nil {
		return m, nil, left, fmt.Errorf("open working directory: %w", err)
	}
	defer root.Close()
	g := collector{root: root, base: base, folder: folder, limit: limit, paths: wire.PathSet{}}
	files, err := g.list(ctx)
	if err != nil {
		return m, nil, g.left, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return m, nil, g.left, fmt.Errorf("make folder of artifacts: %w", err)
	}
	for _, a := range artifacts {
		before := len(g.files)
		var patterns []pattern
		for _, p := range a.Paths {
			patterns = append(patterns, newPattern(p))
		}
		for _, f := range files {
			if ctx.Err() != nil {
				return m, nil, g.left, context.Cause(ctx)
			}
			parts := strings.Split(f.name, "/")
			switch matches := func(p pattern) bool { return p.matches(parts) }; {
			case f.wrong != "" && slices.ContainsFunc(patterns, func(p pattern) bool { return p.matches(parts) || p.leadsThrough(parts) }):
				g.left.add(f.name, f.wrong)
			case f.wrong != "" || !slices.ContainsFunc(patterns, matches):
			default:
				if err := g.add(ctx, a.Name, f); err != nil {
					return m, nil, g.left, err
				}
			}
		}
		if len(g.files) == before && a.Required {
			missing = append(missing, a.Name)
		}
	}
	return Manifest{Files: g.files}, missing, g.left, atomicfile.SyncDir(folder)
}

// A pattern is the parts of a path between slashes. * and ? do not match a slash, ** matches any
// number of folders, and the name of a folder matches everything in it. The empty pattern matches
// everything.
type pattern []string

func newPattern(text string) (p pattern) {
	text = strings.TrimPrefix(path.Clean("/"+text), "/")
	if text == "" {
		return nil
	}
	return slices.CompactFunc(strings.Split(text, "/"), func(a, b string) bool { return a == "**" && b == "**" })
}

// leadsThrough reports whether the pattern may match something in a folder of that name.
func (p pattern) leadsThrough(name []string) bool {
	for k := 1; k < len(p); k++ {
		if (k == len(name) || slices.Contains(p[:k], "**")) && p[:k].matches(name) {
			return true
		}
	}
	return false
}

// matches reports whether the pattern matches a path. Its time is proportional to the product of
// their lengths.
func (p pattern) matches(name []string) bool {
	if len(p) == 0 {
		return true
	}
	at := make([]bool, len(p)) // parts of the pattern that may match the next part of the name
	set := func(at []bool, i int) bool {
		if i < len(p) {
			at[i] = true
			if p[i] == "**" && i+1 < len(p) { // no folder at all; the next part is another
				at[i+1] = true
			}
		}
		return i == len(p)
	}
	set(at, 0)
	for _, part := range name {
		next := make([]bool, len(p))
		for i, may := range at {
			switch {
			case !may:
			case p[i] == "**" && i+1 == len(p):
				return true
			case p[i] == "**":
				set(next, i)
			default:
				if ok, err := path.Match(p[i], part); ok && err == nil && set(next, i+1) {
					return true
				}
			}
		}
		at = next
	}
	return false
}
