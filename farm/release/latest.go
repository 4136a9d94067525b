package release

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Latest is what latest.json says.
type Latest struct {
	Version     string    `json:"version"`
	MinProtocol string    `json:"minProtocol"` // the oldest that the service must speak, such as svc-farm.v1
	NotBefore   time.Time `json:"notBefore"`   // runners do not update themselves to it earlier
}

// MarshalJSON writes the time as the service's other answers have it.
func (l Latest) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{
		"version": l.Version, "minProtocol": l.MinProtocol, "notBefore": l.NotBefore.UTC().Format("2006-01-02T15:04:05.000Z"),
	})
}

// latestContext is signed before the text of latest.json. Sums are signed without, and
// no line of theirs looks like it, so neither signature passes for the other.
const latestContext = "svc-runner latest.json\n"

func signLatest(text []byte, key ed25519.PrivateKey) []byte { return sign(withContext(text), key) }

func withContext(text []byte) []byte { return append([]byte(latestContext), text...) }

// VerifyLatest returns what the text of latest.json says, if one of keys signed it.
func VerifyLatest(text, signature []byte, keys []ed25519.PublicKey) (Latest, error) {
	if err := checkSignature(withContext(text), signature, keys); err != nil {
		return Latest{}, err
	}
	return parseLatest(text)
}

// VerifyLatestFile verifies a latest.json that was downloaded beside its signature.
func VerifyLatestFile(path string, keys []ed25519.PublicKey) (Latest, error) {
	folder := os.DirFS(filepath.Dir(path))
	text, err := readText(folder, LatestFile)
	if err != nil {
		return Latest{}, err
	}
	return verifyLatest(folder, text, keys)
}

// verifyLatest verifies text by the signature that is in a folder.
func verifyLatest(folder fs.FS, text []byte, keys []ed25519.PublicKey) (Latest, error) {
	signature, err := readText(folder, LatestSignatureFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: a svc-release that did not sign latest.json made the release; pack it again", err)
	}
	if err != nil {
		return Latest{}, err
	}
	return VerifyLatest(text, signature, keys)
}

// readLatest returns what a latest.json says that nobody need have signed, with its text.
func readLatest(folder fs.FS) ([]byte, Latest, error) {
	text, err := readText(folder, LatestFile)
	if err != nil {
		return nil, Latest{}, err
	}
	latest, err := parseLatest(text)
	return text, latest, err
}

func parseLatest(text []byte) (Latest, error) {
	var latest Latest
	if err := json.Unmarshal(text, &latest); err != nil {
		return Latest{}, fmt.Errorf("malformed: %w", err)
	}
	if !IsVersion(latest.Version) {
		return Latest{}, errors.New("malformed: its version is none")
	}
	return latest, nil
}

// setLatest makes a release the latest, unless a later one is that by the word of a key
// that may sign.
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
	// Between the two the folder has no release: its file is not what the signature says.
	if err := replaceFile(filepath.Join(dir, LatestSignatureFile), signLatest(text, key)); err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, LatestFile), text)
}
