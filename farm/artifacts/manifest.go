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

// The bounds of a manifest.
const (
	MaxManifest   = wire.MaxManifest
	MaxFiles      = wire.MaxFiles
	MaxChunks     = 10_000   // of a file
	MinChunkBytes = 5 << 20  // of a file that has more than one; buckets want as much
	MaxChunkBytes = 64 << 20 // what is sent again when a connection breaks
	maxName       = 100      // characters
)

// The refusals of manifests.
var (
	ErrTooLarge = fault.New(fault.TooLarge, "artifact_too_large", "The artifacts of this job are larger than a job's may be.")
	errManifest = fault.Field("manifest", "must be JSON of at most 1 MiB that fits the description")
)

// A Manifest says what a runner will send of a job.
type Manifest struct {
	Epoch int    `json:"epoch"`
	Files []File `json:"files"`
}

// A File is one that a job left.
type File struct {
	ID         string `json:"id"` // by which its chunks are named
	Name       string `json:"name"`
	Path       string `json:"path"`
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256"`
	ChunkBytes int64  `json:"chunkBytes"` // of each chunk but the last
	Mode       int    `json:"mode"`
}

var (
	fileIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ReadManifest reads and judges a manifest of files that may have so many bytes together.
func ReadManifest(r io.Reader, most int64) (Manifest, error) {
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
	return m, m.check(most)
}

// check refuses what no runner of ours sends. What is too large is refused before
// anything else of it is judged: no other word would help its sender.
func (m Manifest) check(most int64) error {
	var sum int64
	for _, f := range m.Files {
		if f.Size > most-sum {
			return ErrTooLarge.With("limitBytes", most).With("declaredBytes", m.declared())
		}
		sum += max(f.Size, 0)
	}
	if m.Epoch < 1 || len(m.Files) > MaxFiles {
		return fault.Fields(map[string][]string{"manifest": {
			fmt.Sprintf("must have an epoch of 1 or more, and %d files or fewer", MaxFiles),
		}})
	}
	wrong, ids, places := map[string][]string{}, map[string]bool{}, wire.Places{}
	for i, f := range m.Files {
		field, text := f.wrong()
		switch {
		case text != "":
		case ids[f.ID]:
			field, text = "id", "must not be there twice"
		case !places.Add(f.Name, f.Path):
			field, text = "path", "must be one file's alone on every system, and no other's directory"
		}
		ids[f.ID] = true
		if text != "" && len(wrong) < 20 { // whoever makes more has made one mistake
			wrong[fmt.Sprintf("files[%d].%s", i, field)] = []string{text}
		}
	}
	if len(wrong) > 0 {
		return fault.Fields(wrong)
	}
	return nil
}

// declared is the sum of the sizes, or as much as a number holds.
func (m Manifest) declared() (sum int64) {
	for _, f := range m.Files {
		if sum += max(f.Size, 0); sum < 0 {
			return 1<<63 - 1
		}
	}
	return sum
}

// wrong says what is wrong with a file by itself.
func (f File) wrong() (field, text string) {
	if !fileIDForm.MatchString(f.ID) {
		return "id", "must have 1 to 32 letters, digits, hyphens and underscores"
	}
	if f.Name == "" || utf8.RuneCountInString(f.Name) > maxName || !wire.Readable(f.Name) {
		return "name", "must have 1 to 100 characters, none of them control characters, or others that nobody sees"
	}
	if text := wire.BadPath(f.Path); text != "" {
		return "path", text
	}
	switch {
	case f.Size < 0:
		return "size", "must be 0 or more"
	case !digestForm.MatchString(f.SHA256):
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

// Chunks is how many chunks the file is sent in: none if it is empty.
func (f File) Chunks() int64 { return (f.Size + f.ChunkBytes - 1) / f.ChunkBytes }

// chunkSize is how many bytes chunk n has.
func (f File) chunkSize(n int64) int64 { return min(f.ChunkBytes, f.Size-n*f.ChunkBytes) }

// An Artifact is a file of a job, and its id.
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

// artifact gives the file its id, which follows from all that was declared of it: a file that
// is declared again, to any replica, has it again, and one that is declared otherwise has not.
func (f File) artifact(j Job) Artifact {
	text, _ := json.Marshal(f) // strings and numbers always encode
	sum := sha256.Sum256(fmt.Appendf(nil, "svc artifact\n%s\n%s\n%d\n%s", j.Workspace, j.ID, j.Epoch, text))
	id := events.ID(sum[:16])
	id[6] = 8<<4 | id[6]&0x0f // a UUID of version 8, whose bits are the application's
	id[8] = 0b10<<6 | id[8]&0x3f
	return Artifact{id, f}
}
