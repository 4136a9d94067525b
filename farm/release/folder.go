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

// A Release is a verified release.
type Release struct {
	Latest
	Keys  []ed25519.PublicKey // keys that may sign releases
	Files []string            // names of the programs
}

// A Folder reads releases from a folder. It checks the folder at each call, so that it may be
// filled or changed while a service runs. Use [NewFolder].
type Folder struct {
	dir  string
	keys []ed25519.PublicKey

	mu      sync.Mutex
	stamp   string // of the files that were verified last
	release Release
	err     error // result of that verification
}

// NewFolder returns the folder at dir, "" for none. Releases must be signed by one of keys or,
// without keys, by one in the folder's release.pub.
func NewFolder(dir string, keys []ed25519.PublicKey) *Folder { return &Folder{dir: dir, keys: keys} }

// Open opens the folder itself. The caller must close it.
func (f *Folder) Open() (*os.Root, error) {
	if f.dir == "" {
		return nil, &fs.PathError{Op: "open", Path: "folder of releases", Err: fs.ErrNotExist}
	}
	return os.OpenRoot(f.dir)
}

// A FolderError says why a folder has no valid release.
type FolderError struct {
	Path string // of the file in the folder, "" for the folder itself
	Err  error
}

func (e *FolderError) Error() string { return strings.TrimPrefix(e.Path+": ", ": ") + e.Err.Error() }
func (e *FolderError) Unwrap() error { return e.Err }

// Release returns the latest release with every file verified, or a [*FolderError]. Files that have
// not changed since the last call are not read again, unless one could not be read.
func (f *Folder) Release() (Release, error) {
	root, err := f.Open()
	if err != nil {
		return Release{}, &FolderError{"", err}
	}
	defer root.Close()
	text, latest, err := readLatest(root.FS())
	if err != nil {
		return Release{}, &FolderError{LatestFile, err}
	}
	return f.verified(root, text, latest.Version)
}

// verified verifies the release that text, which was in latest.json, names.
func (f *Folder) verified(root *os.Root, text []byte, version string) (Release, error) {
	stamp := stampOf(root, version)
	if stamp != "" {
		stamp += string(text) // the file may have changed since
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if stamp != f.stamp || stamp == "" {
		f.release, f.err = verify(root.FS(), text, f.keys)
		f.stamp = stamp
		if unreadable(f.err) {
			f.stamp = "" // a change of permissions does not show in a stamp
		}
	}
	return f.release, f.err
}

// Missing names for operators what is missing to install runners: the variable, and the file in the
// folder. It returns nil if there is a complete and signed release.
func (f *Folder) Missing() []string {
	const variable = "SVC_FARM_RELEASES_DIR"
	_, err := f.Release()
	fault, ok := errors.AsType[*FolderError](err)
	switch {
	case err == nil:
		return nil
	case !ok || f.dir == "" || fault.Path == "":
		return []string{variable}
	}
	return []string{variable + "/" + fault.Path}
}

// VerifyFolder returns nil if dir has a complete release signed by one of keys or, without keys, by
// one in its release.pub. Otherwise it returns a [*FolderError].
func VerifyFolder(dir string, keys []ed25519.PublicKey) error {
	_, err := NewFolder(dir, keys).Release()
	return err
}

// stampOf returns a string that changes when any file of a release, latest.json, its signature or
// release.pub changes.
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

// unreadable reports whether err says that a file is there but cannot be read.
func unreadable(err error) bool {
	_, is := errors.AsType[*fs.PathError](err)
	return is && !errors.Is(err, fs.ErrNotExist)
}

func verify(folder fs.FS, latestText []byte, keys []ed25519.PublicKey) (Release, error) {
	if len(keys) == 0 {
		var err error
		if keys, err = readKeys(folder); err != nil {
			return Release{}, &FolderError{KeysFile, err}
		}
	}
	latest, err := verifyLatest(folder, latestText, keys)
	if err != nil {
		return Release{}, &FolderError{LatestSignatureFile, err}
	}
	if err := checkProtocol(latest.MinProtocol); err != nil {
		return Release{}, &FolderError{LatestFile, err}
	}
	sumsPath, signaturePath := path.Join(latest.Version, SumsFile), path.Join(latest.Version, SignatureFile)
	text, err := readText(folder, sumsPath)
	if err != nil {
		return Release{}, &FolderError{sumsPath, err}
	}
	signature, err := readText(folder, signaturePath)
	if err != nil {
		return Release{}, &FolderError{signaturePath, err}
	}
	sums, err := Verify(text, signature, keys)
	switch {
	case err != nil:
		return Release{}, &FolderError{signaturePath, err}
	case sums.Version != latest.Version:
		return Release{}, &FolderError{sumsPath, fmt.Errorf("it is that of release %s", sums.Version)}
	}
	for _, name := range slices.Sorted(maps.Keys(sums.Files)) {
		if err := checkFile(folder, path.Join(sums.Version, name), name, sums); err != nil {
			return Release{}, &FolderError{path.Join(sums.Version, name), err}
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

// readText reads a file of at most maxText bytes.
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
