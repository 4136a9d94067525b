package artifacts

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"

	"svc/events"
	"svc/farm/wire"
	"svc/fault"
)

// Limits of a manifest.
const (
	MaxManifest   = wire.MaxManifest
	MaxFiles      = wire.MaxFiles
	MaxChunks     = 10_000   // of a file
	MinChunkBytes = 5 << 20  // in a file of several chunks; the minimum of S3's multipart uploads
	MaxChunkBytes = 64 << 20 // limits what is sent again after a broken connection
	maxName       = 100      // characters
)

// Errors about manifests.
var (
	ErrTooLarge = fault.New(fault.TooLarge, "artifact_too_large", "The artifacts of this job are larger than a job's may be.")
	errManifest = fault.Field("manifest", "must be JSON of at most 1 MiB that fits the description")
)

// A Manifest lists the files that a runner will upload for a job.
type Manifest struct {
	Epoch int    `json:"epoch"`
	Files []File `json:"files"`
}

// A File describes a file of a job.
type File struct {
	ID         string `json:"id"` // part of the names of chunks in the upload
	Name       string `json:"name"`
	Path       string `json:"path"`
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256"`
	ChunkBytes int64  `json:"chunkBytes"` // size of all chunks except the last
	Mode       int    `json:"mode"`
}

var (
	fileIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ReadManifest parses and checks a manifest. limit is the largest total size of the files in bytes.
// Its error is [ErrTooLarge], one about fields, or that of r.
func ReadManifest(r io.Reader, limit int64) (Manifest, error) {
	var m Manifest
	text, err := io.ReadAll(io.LimitReader(r, MaxManifest+1))
	if err != nil {
		return m, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if len(text) > MaxManifest || !utf8.Valid(text) || d.Decode(&m) != nil {
		return m, errManifest
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return m, errManifest
	}
	return m, m.check(limit)
}

// check returns an error about an invalid manifest. The total size is checked first, since no other error
// would help if it is too large.
func (m Manifest) check(limit int64) error {
	var sum int64
	for _, f := range m.Files {
		if f.Size > limit-sum {
			return ErrTooLarge.With("limitBytes", limit).With("declaredBytes", m.declared())
		}
		sum += max(f.Size, 0)
	}
	if m.Epoch < 1 || len(m.Files) > MaxFiles {
		return fault.Fields(map[string][]string{"manifest": {
			fmt.Sprintf("must have an epoch of 1 or more, and %d files or fewer", MaxFiles),
		}})
	}
	wrong, ids, places := map[string][]string{}, map[string]bool{}, wire.PathSet{}
	for i, f := range m.Files {
		field, text := f.problem()
		switch {
		case text != "":
		case ids[f.ID]:
			field, text = "id", "must not be there twice"
		case !places.Add(f.Name, f.Path):
			field, text = "path", "must be one file's alone on every system, and no other's directory"
		}
		ids[f.ID] = true
		if text != "" && len(wrong) < 20 { // more errors usually have one cause
			wrong[fmt.Sprintf("files[%d].%s", i, field)] = []string{text}
		}
	}
	if len(wrong) > 0 {
		return fault.Fields(wrong)
	}
	return nil
}

// declared returns the total size, capped at the largest int64.
func (m Manifest) declared() (sum int64) {
	for _, f := range m.Files {
		if sum += max(f.Size, 0); sum < 0 {
			return 1<<63 - 1
		}
	}
	return sum
}

// problem returns the first invalid field of a file, and what is wrong with it.
func (f File) problem() (field, text string) {
	if !fileIDPattern.MatchString(f.ID) {
		return "id", "must have 1 to 32 letters, digits, hyphens and underscores"
	}
	if f.Name == "" || utf8.RuneCountInString(f.Name) > maxName || !wire.Readable(f.Name) {
		return "name", "must have 1 to 100 characters, none of them control characters, or others that nobody sees"
	}
	if text := wire.PathProblem(f.Path); text != "" {
		return "path", text
	}
	switch {
	case f.Size < 0:
		return "size", "must be 0 or more"
	case !digestPattern.MatchString(f.SHA256):
		return "sha256", "must be 64 lower-case hex digits"
	case f.Mode < 0 || f.Mode > 0o777:
		return "mode", "must be the permission bits of a file, 0 to 511"
	case f.ChunkBytes < 1 || f.ChunkBytes > MaxChunkBytes || f.Size > f.ChunkBytes && f.ChunkBytes < MinChunkBytes:
		return "chunkBytes", "must be 1 to 67108864, and 5242880 or more in a file of several chunks"
	case f.Chunks() > MaxChunks:
		return "chunkBytes", "must be so large that the file has 10000 chunks or fewer"
	}
	return "", ""
}

// Chunks returns the number of chunks, 0 for an empty file.
func (f File) Chunks() int64 { return (f.Size + f.ChunkBytes - 1) / f.ChunkBytes }

// chunkSize returns the size of chunk n in bytes.
func (f File) chunkSize(n int64) int64 { return min(f.ChunkBytes, f.Size-n*f.ChunkBytes) }

// An Artifact is a file of a job with its id.
type Artifact struct {
	ID events.ID
	File
}

// Artifacts returns the files of a job with their ids.
func (m Manifest) Artifacts(j Job) (list []Artifact) {
	for _, f := range m.Files {
		list = append(list, f.artifact(j))
	}
	return list
}

// artifact derives the file's id from everything declared about it. Declaring the same file again,
// to any replica, gives the same id, and any change gives another one.
func (f File) artifact(j Job) Artifact {
	text, _ := json.Marshal(f) // cannot fail for strings and numbers
	sum := sha256.Sum256(fmt.Appendf(nil, "svc artifact\n%s\n%s\n%d\n%s", j.Workspace, j.ID, j.Epoch, text))
	id := events.ID(sum[:16])
	id[6] = 8<<4 | id[6]&0x0f // a UUID of version 8, whose bits are the application's
	id[8] = 0b10<<6 | id[8]&0x3f
	return Artifact{id, f}
}
