package release

import (
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"svc/atomicfile"
	"svc/filelock"
)

// A Build is a compiled svc-runner for one platform.
type Build struct {
	OS, Arch string // as Go names them
	Path     string // of the program
}

// ErrPacked says that the folder has a release of that version with other programs.
var ErrPacked = errors.New("another release of this version is there")

// lockFile keeps others from packing into the folder. It stays there.
const lockFile = ".pack.lock"

// workPattern is of folders in which releases are made, next to which they then are.
const workPattern = ".pack-*"

// Pack writes a release, signed with key, to the folder dir, which is created if needed, and makes
// it the latest unless a later one is there. A release of the same version may get more
// programs; the error is [ErrPacked] if one of them would differ or be gone, and a
// [*filelock.HeldError] while another process packs.
func Pack(dir string, latest Latest, builds []Build, key ed25519.PrivateKey) error {
	return packer{false, os.Rename}.pack(dir, latest, builds, key)
}

// Repack is [Pack], but replaces any release of the same version; for a moment in between there is
// none. Machines that have the replaced release cannot tell the two apart.
func Repack(dir string, latest Latest, builds []Build, key ed25519.PrivateKey) error {
	return packer{true, os.Rename}.pack(dir, latest, builds, key)
}

type packer struct {
	replace bool // a release of the same version
	rename  func(from, to string) error
}

func (p packer) pack(dir string, latest Latest, builds []Build, key ed25519.PrivateKey) (err error) {
	if !IsVersion(latest.Version) {
		return fmt.Errorf("%q is not a version such as 1.2.3", latest.Version)
	}
	if len(builds) == 0 {
		return errors.New("a release needs a program")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := filelock.Try(filepath.Join(dir, lockFile))
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if err := removeWork(dir); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, workPattern)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	made, final := filepath.Join(work, "new"), filepath.Join(dir, latest.Version)
	if err := writeRelease(made, latest.Version, builds, key); err != nil {
		return err
	}
	if err := sameSums(final, made); err != nil && !p.replace {
		return err
	}
	if err := addKey(dir, key.Public().(ed25519.PublicKey)); err != nil {
		return err
	}
	if err := p.exchange(final, made, filepath.Join(work, "old")); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		return err
	}
	return setLatest(dir, latest, key)
}

// exchange moves made to final, and what was there to old.
func (p packer) exchange(final, made, old string) error {
	err := p.rename(final, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	replaces := err == nil
	err = p.rename(made, final)
	if err != nil && replaces {
		err = errors.Join(err, p.rename(old, final))
	}
	return err
}

// removeWork removes what processes left that were killed while they packed.
func removeWork(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if left, _ := path.Match(workPattern, e.Name()); left {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// sameSums returns nil if made has all sums that old has, if old has any.
func sameSums(old, made string) error {
	before, err := readText(os.DirFS(old), SumsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	after, err := readText(os.DirFS(made), SumsFile)
	if err != nil {
		return err
	}
	lines := slices.Collect(strings.Lines(string(after)))
	for line := range strings.Lines(string(before)) {
		if !slices.Contains(lines, line) {
			return fmt.Errorf("%w; its sums have the line %q", ErrPacked, strings.TrimSpace(line))
		}
	}
	return nil
}

func writeRelease(dir, version string, builds []Build, key ed25519.PrivateKey) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var lines []string
	for _, b := range builds {
		name := Name(b.OS, b.Arch)
		if !platformPattern.MatchString(b.OS) || !platformPattern.MatchString(b.Arch) {
			return fmt.Errorf("%s/%s is not a platform", b.OS, b.Arch)
		}
		sum, err := compress(b.Path, filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("pack %s: %w", b.Path, err)
		}
		lines = append(lines, fmt.Sprintf("%x  %s/%s\n", sum, version, name))
	}
	slices.Sort(lines)
	text := []byte(strings.Join(lines, ""))
	if _, err := parseSums(string(text)); err != nil { // two builds for one platform
		return err
	}
	return errors.Join(writePublic(filepath.Join(dir, SumsFile), text), writePublic(filepath.Join(dir, SignatureFile), sign(text, key)))
}

// compress writes a gzip file without name and time, so that the same program gives the same bytes.
func compress(from, to string) (sum [sha256.Size]byte, err error) {
	in, err := os.Open(from)
	if err != nil {
		return sum, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // it is served to anybody
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	z := gzip.NewWriter(io.MultiWriter(out, h)) // best compression would take three times as long to save a thousandth
	_, err = io.Copy(z, in)
	err = errors.Join(err, z.Close())
	return [sha256.Size]byte(h.Sum(nil)), errors.Join(err, out.Sync(), out.Close())
}

// addKey adds a public key to release.pub and keeps earlier ones.
func addKey(dir string, key ed25519.PublicKey) error {
	path := filepath.Join(dir, KeysFile)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line := FormatKey(key)
	if slices.Contains(strings.Fields(string(text)), line) {
		return nil
	}
	lines := append([]string{line}, strings.Fields(string(text))...)
	return writePublic(path, []byte(strings.Join(lines, "\n")+"\n"))
}

// writePublic replaces a file that is served to anybody.
func writePublic(path string, text []byte) error { return atomicfile.Write(path, text, 0o644) }
