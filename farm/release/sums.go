package release

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Sums is the content of a verified SHA256SUMS.
type Sums struct {
	Version string
	Files   map[string][sha256.Size]byte // digest by program name
}

// Verify parses the text of SHA256SUMS if one of keys has signed it. Its error is [ErrSignature] if
// none has.
func Verify(text, signature []byte, keys []ed25519.PublicKey) (Sums, error) {
	if err := checkSignature(text, signature, keys); err != nil {
		return Sums{}, err
	}
	return parseSums(string(text))
}

func parseSums(text string) (Sums, error) {
	s := Sums{Files: map[string][sha256.Size]byte{}}
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		digest, path, two := strings.Cut(line, "  ")
		version, name, slash := strings.Cut(path, "/")
		sum, err := hex.DecodeString(digest)
		_, twice := s.Files[name]
		switch {
		case !ended || !two || !slash || err != nil || len(sum) != sha256.Size || !IsVersion(version) || !IsProgram(name):
			return Sums{}, fmt.Errorf("line %d of the sums is malformed", len(s.Files)+1)
		case s.Version != "" && version != s.Version:
			return Sums{}, fmt.Errorf("sums of %s and %s in one release", s.Version, version)
		case twice:
			return Sums{}, fmt.Errorf("%s has two sums", name)
		}
		s.Version, s.Files[name] = version, [sha256.Size]byte(sum)
	}
	if len(s.Files) == 0 {
		return Sums{}, errors.New("there are no sums")
	}
	return s, nil
}

// Check reads a program to its end, and returns an error unless it has the digest of that name.
func (s Sums) Check(name string, r io.Reader) error {
	want, ok := s.Files[name]
	if !ok {
		return fmt.Errorf("%s is not in release %s", name, s.Version)
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(r, maxProgram+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	case n > maxProgram:
		return fmt.Errorf("%s has more than %d bytes", name, maxProgram)
	case [sha256.Size]byte(h.Sum(nil)) != want:
		return fmt.Errorf("%s is not what release %s says", name, s.Version)
	}
	return nil
}

// VerifyFile verifies a downloaded program by the SHA256SUMS and signature next to it. version is
// the required version, "" for any.
func VerifyFile(path, version string, keys []ed25519.PublicKey) (Sums, error) {
	folder, name := filepath.Split(path)
	text, err := readText(os.DirFS(filepath.Clean(folder)), SumsFile)
	if err != nil {
		return Sums{}, err
	}
	signature, err := readText(os.DirFS(filepath.Clean(folder)), SignatureFile)
	if err != nil {
		return Sums{}, err
	}
	sums, err := Verify(text, signature, keys)
	if err != nil {
		return Sums{}, err
	}
	if version != "" && sums.Version != version {
		return Sums{}, fmt.Errorf("the sums are those of release %s, not %s", sums.Version, version)
	}
	f, err := os.Open(path)
	if err != nil {
		return Sums{}, err
	}
	defer f.Close()
	return sums, sums.Check(name, f)
}
