package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
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
	maxMissing = 100 // artifacts that are named
	maxLeftOut = 20  // files that are named
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
	m, missing, leftOut, err := gather(x.job.Work(), x.Files, want, x.ArtifactLimit)
	m.Epoch = x.Epoch
	for _, text := range leftOut {
		x.notice("artifact left out: " + text)
	}
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
// and says which required artifacts have none, and which files are left out for what is wrong with
// them: the service would refuse the others with them. Symbolic links are left out, and none is followed
// out of work, whatever goes on there meanwhile. Nothing is kept if it is more than limit bytes.
func gather(work, folder string, artifacts []wire.Artifact, limit int64) (m manifest, missing, leftOut []string, err error) {
	root, err := os.OpenRoot(work)
	if err != nil {
		return m, nil, nil, fmt.Errorf("open working directory: %w", err)
	}
	defer root.Close()
	files, err := regularFiles(root)
	if err != nil {
		return m, nil, nil, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return m, nil, nil, fmt.Errorf("make folder of artifacts: %w", err)
	}
	g := gathering{root: root, folder: folder, limit: limit, places: wire.Places{}}
	for _, a := range artifacts {
		before := len(g.files)
		for _, name := range files {
			if !slices.ContainsFunc(a.Paths, func(p string) bool { return matches(p, name) }) {
				continue
			}
			if err := g.take(a.Name, name); err != nil {
				return m, nil, nil, err
			}
		}
		if len(g.files) == before && a.Required {
			missing = append(missing, a.Name)
		}
	}
	if more := g.without - len(g.leftOut); more > 0 {
		g.leftOut = append(g.leftOut, fmt.Sprintf("and %d more", more))
	}
	return manifest{Files: g.files}, missing, g.leftOut, nil
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
