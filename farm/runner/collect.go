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

// A manifest lists the files to upload. Its JSON is the first part of the upload.
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
	maxMissing = 100 // missing artifacts that are reported by name
	maxLeftOut = 20  // files left out that are reported by name
)

var errTooMany = errors.New("more files than an upload may have")

// collect copies the artifacts of a job and reports their manifest. It returns the job's end, which
// is a failure if a required artifact is missing.
func (x *execution) collect(end wire.Event) wire.Event {
	var want []wire.Artifact
	for _, a := range x.Spec.Artifacts {
		well := end.Outcome == succeeded
		if a.When == "always" || a.When == "failure" && !well || (a.When == "" || a.When == "success") && well {
			want = append(want, a)
		}
	}
	if len(want) == 0 || end.SignalReason == reasonFenced || end.SignalReason == reasonAgentStop {
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

// gather copies the files in work that artifacts match into folder, each named by its id. It
// returns the required artifacts without any file, and the files left out because the service would
// refuse the whole manifest with them. Symbolic links are left out, and none leads out of work,
// whatever runs there meanwhile. If the files exceed limit bytes, gather fails.
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
	g := collector{root: root, folder: folder, limit: limit, paths: wire.PathSet{}}
	for _, a := range artifacts {
		before := len(g.files)
		for _, name := range files {
			if !slices.ContainsFunc(a.Paths, func(p string) bool { return matches(p, name) }) {
				continue
			}
			if err := g.add(a.Name, name); err != nil {
				return m, nil, nil, err
			}
		}
		if len(g.files) == before && a.Required {
			missing = append(missing, a.Name)
		}
	}
	if more := g.leftOutCount - len(g.leftOut); more > 0 {
		g.leftOut = append(g.leftOut, fmt.Sprintf("and %d more", more))
	}
	return manifest{Files: g.files}, missing, g.leftOut, nil
}

// regularFiles lists the regular files below root in order, without .git.
func regularFiles(root *os.Root) (list []string, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && errors.Is(err, fs.ErrPermission):
			return fs.SkipDir // a step has removed the permission
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

// matches reports whether a pattern matches name. * and ? do not match a slash, ** matches any
// number of folders, and the name of a folder matches everything in it.
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
		return true // matches a folder that contains the file, or the file itself
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
