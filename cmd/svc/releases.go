package main

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"svc/farm/release"
	"svc/farm/wire"
	"svc/fault"
)

// packRelease packs svc-runner for this machine's platform into the folder of releases, so that
// other machines of that platform can install it. A release for more platforms from make release is
// kept.
func (s *stack) packRelease(now time.Time) error {
	dir, program := s.folder.file(releasesFolder), filepath.Join(s.programs, "svc-runner")
	if packed(dir, program) {
		return nil
	}
	s.say("packing the release of svc-runner")
	key, err := release.OpenKey(s.folder.file("release.key"))
	if err != nil {
		return fmt.Errorf("open the key of releases: %w", err)
	}
	latest := release.Latest{Version: release.Version, MinProtocol: wire.Version, NotBefore: now}
	builds := []release.Build{{OS: runtime.GOOS, Arch: runtime.GOARCH, Path: program}}
	return fault.Wrap(release.Repack(dir, latest, builds, key), "pack the release of svc-runner")
}

// packed reports whether dir has a signed release of this version that contains program, or that
// has more platforms.
func packed(dir, program string) bool {
	r, err := release.NewFolder(dir, nil).Release()
	name := release.Name(runtime.GOOS, runtime.GOARCH)
	if err != nil || r.Version != release.Version || !slices.Contains(r.Files, name) {
		return false
	}
	if len(r.Files) > 1 {
		return true
	}
	is, err := sumOf(program, func(f io.Reader) (io.Reader, error) { return f, nil })
	if err != nil {
		return false
	}
	has, err := sumOf(filepath.Join(dir, r.Version, name), func(f io.Reader) (io.Reader, error) { return gzip.NewReader(f) })
	return err == nil && is == has
}

// sumOf returns the SHA-256 of a file's content after read has decoded it.
func sumOf(path string, read func(io.Reader) (io.Reader, error)) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	text, err := read(f)
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	_, err = io.Copy(h, text)
	return [sha256.Size]byte(h.Sum(nil)), err
}
