package release

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"svc/farm/wire"
)

// Latest is the content of latest.json.
type Latest struct {
	Version     string    `json:"version"`
	MinProtocol string    `json:"minProtocol"` // oldest protocol that the service must support, such as svc-farm.v1
	NotBefore   time.Time `json:"notBefore"`   // for runners that update themselves, as none does yet
}

// MarshalJSON formats the time as the service's other answers do.
func (l Latest) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"version": l.Version, "minProtocol": l.MinProtocol, "notBefore": wire.At(l.NotBefore)})
}

// latestContext is prepended to latest.json for signing. SHA256SUMS is signed without it and no
// line of it looks like it, so a signature of one is never valid for the other.
const latestContext = "svc-runner latest.json\n"

func signLatest(text []byte, key ed25519.PrivateKey) []byte { return sign(latestMessage(text), key) }

func latestMessage(text []byte) []byte { return append([]byte(latestContext), text...) }

// VerifyLatest parses latest.json if one of keys has signed it. Its error is [ErrSignature] if none
// has.
func VerifyLatest(text, signature []byte, keys []ed25519.PublicKey) (Latest, error) {
	if err := checkSignature(latestMessage(text), signature, keys); err != nil {
		return Latest{}, err
	}
	return parseLatest(text)
}

// VerifyLatestFile verifies a downloaded latest.json by the signature file next to it.
func VerifyLatestFile(path string, keys []ed25519.PublicKey) (Latest, error) {
	folder := os.DirFS(filepath.Dir(path))
	text, err := readText(folder, LatestFile)
	if err != nil {
		return Latest{}, err
	}
	return verifyLatest(folder, text, keys)
}

// verifyLatest verifies text by the signature file in a folder.
func verifyLatest(folder fs.FS, text []byte, keys []ed25519.PublicKey) (Latest, error) {
	signature, err := readText(folder, LatestSignatureFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: the release was made by a svc-release that did not sign latest.json; pack it again", err)
	}
	if err != nil {
		return Latest{}, err
	}
	return VerifyLatest(text, signature, keys)
}

// readLatest returns the text and content of latest.json without verifying them.
func readLatest(folder fs.FS) ([]byte, Latest, error) {
	text, err := readText(folder, LatestFile)
	if err != nil {
		return nil, Latest{}, err
	}
	latest, err := parseLatest(text)
	return text, latest, err
}

// checkProtocol returns an error if runners of a release need a newer protocol than the service speaks.
func checkProtocol(needed string) error {
	if needed == "" {
		return nil
	}
	spoken, _ := protocolNumber(wire.Version)
	if n, ok := protocolNumber(needed); !ok || n > spoken {
		return fmt.Errorf("its runners need protocol %q, and the service speaks %s: upgrade the service first", needed, wire.Version)
	}
	return nil
}

func protocolNumber(name string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(name, "svc-farm.v")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil
}

func parseLatest(text []byte) (Latest, error) {
	var latest Latest
	if err := json.Unmarshal(text, &latest); err != nil {
		return Latest{}, fmt.Errorf("malformed: %w", err)
	}
	if !IsVersion(latest.Version) {
		return Latest{}, errors.New("malformed: want a version such as 1.2.3")
	}
	return latest, nil
}

// setLatest makes a release the latest, unless a later release is that and is properly signed.
func setLatest(dir string, latest Latest, key ed25519.PrivateKey) error {
	folder := os.DirFS(dir)
	if text, there, err := readLatest(folder); err == nil && Compare(latest.Version, there.Version) < 0 {
		keys, err := readKeys(folder)
		if err == nil {
			_, err = verifyLatest(folder, text, keys)
		}
		if err != nil {
			return fmt.Errorf("%s names the later release %s, for which nobody vouches; pack that again, or remove the file: %w",
				LatestFile, there.Version, err)
		}
		return nil
	}
	text, err := json.MarshalIndent(latest, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	// Between the two writes the signature does not match, so the folder has no valid release.
	if err := writePublic(filepath.Join(dir, LatestSignatureFile), signLatest(text, key)); err != nil {
		return err
	}
	return writePublic(filepath.Join(dir, LatestFile), text)
}
