package release

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// A Release is one that was verified.
type Release struct {
	Latest
	Keys  []ed25519.PublicKey // those that may have signed it
	Files []string            // the names of its programs
}

// A Folder is a folder of releases that is read whenever somebody asks, so that it may
// be filled or changed while a service runs. Use NewFolder.
type Folder struct {
	dir  string
	keys []ed25519.PublicKey

	mu      sync.Mutex
	stamp   string // of what was verified last
	release Release
	err     error // of that
}

// NewFolder returns the folder at dir, "" for none. Its releases must be signed with one
// of keys; without any, with one of the folder's release.pub.
func NewFolder(dir string, keys []ed25519.PublicKey) *Folder { return &Folder{dir: dir, keys: keys} }

// Open opens the folder itself. The caller closes it.
func (f *Folder) Open() (*os.Root, error) {
	if f.dir == "" {
		return nil, &fs.PathError{Op: "open", Path: "folder of releases", Err: fs.ErrNotExist}
	}
	return os.OpenRoot(f.dir)
}

// A Fault is why a folder has no release that runners could install.
type Fault struct {
	Path string // in the folder, "" for the folder itself
	Err  error
}

func (e *Fault) Error() string { return strings.TrimPrefix(e.Path+": ", ": ") + e.Err.Error() }
func (e *Fault) Unwrap() error { return e.Err }

// Release returns the latest release after every byte of it was verified, or a [*Fault].
// Files that have not changed since are not read again.
func (f *Folder) Release() (Release, error) {
	root, err := f.Open()
	if err != nil {
		return Release{}, &Fault{"", err}
	}
	defer root.Close()
	text, latest, err := readLatest(root.FS())
	if err != nil {
		return Release{}, &Fault{LatestFile, err}
	}
	stamp := stampOf(root, latest.Version)
	f.mu.Lock()
	defer f.mu.Unlock()
	if stamp != f.stamp || stamp == "" {
		f.release, f.err = verify(root.FS(), text, f.keys)
		f.stamp = stamp
	}
	return f.release, f.err
}

// Missing names what keeps runners from being installed, in words for an operator: the
// variable, and the file in it. It is nil if a complete and signed release is there.
func (f *Folder) Missing() []string {
	const variable = "SVC_FARM_RELEASES_DIR"
	_, err := f.Release()
	fault, ok := errors.AsType[*Fault](err)
	switch {
	case err == nil:
		return nil
	case !ok || f.dir == "" || fault.Path == "":
		return []string{variable}
	}
	return []string{variable + "/" + fault.Path}
}

// Ready returns nil if dir has a complete release that one of keys signed, or, without
// keys, one of its release.pub; else a [*Fault].
func Ready(dir string, keys []ed25519.PublicKey) error {
	_, err := NewFolder(dir, keys).Release()
	return err
}

// stampOf changes when a file of a release, latest.json, its signature or release.pub does.
func stampOf(root *os.Root, version string) string {
	var b strings.Builder
	names := []string{LatestFile, LatestSignatureFile, KeysFile}
	entries, err := fs.ReadDir(root.FS(), version)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		names = append(names, path.Join(version, e.Name()))
	}
	for _, name := range names {
		info, err := root.Stat(name)
		if err != nil {
			fmt.Fprintf(&b, "%s -\n", name)
			continue
		}
		fmt.Fprintf(&b, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}

func verify(folder fs.FS, latestText []byte, keys []ed25519.PublicKey) (Release, error) {
	if len(keys) == 0 {
		var err error
		if keys, err = readKeys(folder); err != nil {
			return Release{}, &Fault{KeysFile, err}
		}
	}
	latest, err := verifyLatest(folder, latestText, keys)
	if err != nil {
		return Release{}, &Fault{LatestSignatureFile, err}
	}
	sumsPath, signaturePath := path.Join(latest.Version, SumsFile), path.Join(latest.Version, SignatureFile)
	text, err := readText(folder, sumsPath)
	if err != nil {
		return Release{}, &Fault{sumsPath, err}
	}
	signature, err := readText(folder, signaturePath)
	if err != nil {
		return Release{}, &Fault{signaturePath, err}
	}
	sums, err := Verify(text, signature, keys)
	switch {
	case err != nil:
		return Release{}, &Fault{signaturePath, err}
	case sums.Version != latest.Version:
		return Release{}, &Fault{sumsPath, fmt.Errorf("it is that of release %s", sums.Version)}
	}
	for _, name := range slices.Sorted(maps.Keys(sums.Files)) {
		if err := checkFile(folder, path.Join(sums.Version, name), name, sums); err != nil {
			return Release{}, &Fault{path.Join(sums.Version, name), err}
		}
	}
	return Release{latest, keys, slices.Sorted(maps.Keys(sums.Files))}, nil
}

func checkFile(folder fs.FS, path, name string, sums Sums) error {
	f, err := folder.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return sums.Check(name, f)
}

func readKeys(folder fs.FS) ([]ed25519.PublicKey, error) {
	text, err := readText(folder, KeysFile)
	if err != nil {
		return nil, err
	}
	keys, err := ParseKeys(strings.Fields(string(text)))
	if err == nil && len(keys) == 0 {
		err = errors.New("it holds no key")
	}
	return keys, err
}

// readText reads a file that is small if it is what it should be.
func readText(folder fs.FS, name string) ([]byte, error) {
	f, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(text) > maxText:
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxText)
	}
	return text, nil
}
