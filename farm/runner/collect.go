package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"svc/farm/wire"
)

// A manifest says which files will be uploaded. It has the form of the upload's first part.
type manifest struct {
	Epoch int            `json:"epoch"`
	Files []manifestFile `json:"files"`
}

type manifestFile struct {
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
	maxFiles   = 1000 // of a job
	maxMissing = 100  // that are named
)

var errTooMany = errors.New("more files than an upload may have")

// collect copies the artifacts of a job that has ended so, and tells the supervisor of them.
// It returns the end, which is another one if a required artifact is missing.
func (x *execution) collect(end wire.Event) wire.Event {
	var want []wire.Artifact
	for _, a := range x.Spec.Artifacts {
		well := end.Outcome == succeeded
		if a.When == "always" || a.When == "failure" && !well || (a.When == "" || a.When == "success") && well {
			want = append(want, a)
		}
	}
	if len(want) == 0 || end.SignalReason == becauseFenced || end.SignalReason == becauseAgentStop {
		return end
	}
	m, missing, err := gather(x.job.Work(), x.Files, want, x.ArtifactLimit)
	m.Epoch = x.Epoch
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
		if err := x.report.json(kindManifest, m); err != nil {
			return end // the supervisor has gone
		}
	}
	end.Artifacts, end.MissingArtifacts = len(m.Files), missing[:min(len(missing), maxMissing)]
	if len(missing) > 0 && end.Outcome == succeeded {
		end.Outcome, end.Reason = failed, "artifact_missing"
		x.notice("required artifacts are missing: " + strings.Join(missing, ", "))
	}
	return end
}

// gather copies the files of work that artifacts name into folder, each named by its id,
// and says which required artifacts have none. Symbolic links are left out, and none is followed
// out of work, whatever goes on there meanwhile. Nothing is kept if it is more than limit bytes.
func gather(work, folder string, artifacts []wire.Artifact, limit int64) (m manifest, missing []string, err error) {
	root, err := os.OpenRoot(work)
	if err != nil {
		return m, nil, fmt.Errorf("open working directory: %w", err)
	}
	defer root.Close()
	files, err := regularFiles(root)
	if err != nil {
		return m, nil, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return m, nil, fmt.Errorf("make folder of artifacts: %w", err)
	}
	for _, a := range artifacts {
		found := false
		for _, name := range files {
			if !slices.ContainsFunc(a.Paths, func(p string) bool { return matches(p, name) }) {
				continue
			}
			if len(m.Files) == maxFiles {
				return m, nil, fmt.Errorf("%w (%d)", errTooMany, maxFiles)
			}
			f := manifestFile{ID: "f" + strconv.Itoa(len(m.Files)+1), Name: a.Name, Path: name, ChunkBytes: chunkBytes}
			if err := f.copy(root, filepath.Join(folder, f.ID), limit); err != nil {
				return m, nil, err
			}
			limit -= f.Size
			m.Files = append(m.Files, f)
			found = true
		}
		if !found && a.Required {
			missing = append(missing, a.Name)
		}
	}
	return m, missing, nil
}

// regularFiles lists the files in order.
func regularFiles(root *os.Root) (list []string, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && errors.Is(err, fs.ErrPermission):
			return fs.SkipDir // a step took the right away
		case err != nil:
			return err
		case d.IsDir() && name == ".git":
			return fs.SkipDir
		case d.Type().IsRegular():
			list = append(list, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk working directory: %w", err)
	}
	slices.Sort(list)
	return list, nil
}

// copy takes a file as it is now: its size and digest are those of the copy.
func (f *manifestFile) copy(root *os.Root, to string, limit int64) error {
	from, err := root.Open(f.Path)
	if err != nil {
		return fmt.Errorf("open artifact: %w", err)
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("artifact %s: it is no file any more", f.Path)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copy artifact: %w", err)
	}
	defer out.Close()
	hash := sha256.New()
	f.Size, err = io.Copy(io.MultiWriter(out, hash), io.LimitReader(from, limit+1))
	if err == nil && f.Size > limit {
		err = fmt.Errorf("artifacts are larger than a job's may be, with %s", f.Path)
	}
	if err == nil {
		err = errors.Join(out.Sync(), out.Close())
	}
	if err != nil {
		return fmt.Errorf("copy artifact: %w", err)
	}
	f.SHA256, f.Mode = hex.EncodeToString(hash.Sum(nil)), int(info.Mode().Perm())
	return nil
}

// matches reports whether name is meant by pattern, in which * and ? stay in a folder and
// ** stands for any number of them. A folder means all that is in it.
func matches(pattern, name string) bool {
	pattern = strings.TrimPrefix(path.Clean("/"+pattern), "/")
	if pattern == "" {
		return true
	}
	p, n := strings.Split(pattern, "/"), strings.Split(name, "/")
	return matchParts(p, n)
}

func matchParts(p, n []string) bool {
	switch {
	case len(p) == 0:
		return true // a folder, or the file itself
	case p[0] == "**" && len(p) == 1:
		return len(n) > 0
	case p[0] == "**":
		return matchParts(p[1:], n) || len(n) > 0 && matchParts(p, n[1:])
	case len(n) == 0:
		return false
	}
	ok, err := path.Match(p[0], n[0])
	return ok && err == nil && matchParts(p[1:], n[1:])
}
