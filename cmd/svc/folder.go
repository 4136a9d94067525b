package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"svc/atomicfile"
	"svc/filelock"
)

// A folder is the data folder. It belongs to one svc at a time and is accessible only to its user:
//
//	lock          held, and the process id, of the svc that runs
//	secrets.json  see secrets
//	demo.json     see demo
//	dev.json      see addresses
//	postgres/     the private PostgreSQL
//	gateway/      a private authority, and the gateway's certificate of it
//	releases/     of svc-runner; make release adds other platforms
//	release.key   that signs them
//	runner/       the runner of this machine, see svc-runner
//	artifacts/    what jobs have left
//	codehost/     repositories of the code host, with their issues and pull requests
//	engine/       the engine's copies of them, which it makes again if they are gone
//	log/          what all programs say, see logFile
type folder struct {
	path string // absolute
	lock *filelock.Lock
}

// openFolder creates the folder if necessary and locks it until close or the end of the process. It
// does not wait for the lock. It refuses a folder with other contents and does not touch it.
func openFolder(path string) (*folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("SVC_DATA_DIR: %w", err)
	}
	if ours, err := isOurs(path); err != nil || !ours {
		return nil, cmp.Or(err, fmt.Errorf("SVC_DATA_DIR: %s is neither empty nor a data folder of svc; name another", path))
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return nil, fmt.Errorf("SVC_DATA_DIR: %w", err)
	}
	lock, err := filelock.Try(filepath.Join(path, "lock"))
	if held, ok := errors.AsType[*filelock.HeldError](err); ok {
		return nil, fmt.Errorf("svc runs in %s already, as process %s", path, held.PID)
	}
	if err != nil {
		return nil, err
	}
	return &folder{path, lock}, nil
}

// ownFiles matches the names of svc's files in its folder, including those of interrupted writes.
var ownFiles = regexp.MustCompile(
	`^(lock|postgres|gateway|releases|release[.]key|runner|artifacts|codehost|engine|log|(secrets|demo|dev)[.]json([.].*)?)$`)

// isOurs reports whether a folder has only svc's files, or has svc's secrets, readable only by
// their owner, among others.
func isOurs(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, fmt.Errorf("SVC_DATA_DIR: %w", err)
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !ownFiles.MatchString(e.Name()) }) {
		return true, nil
	}
	secrets, err := os.Lstat(filepath.Join(path, "secrets.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("SVC_DATA_DIR: %w", err)
	}
	return secrets.Mode().IsRegular() && secrets.Mode().Perm()&0o077 == 0, nil
}

func (f *folder) close() { _ = f.lock.Unlock() }

// Subfolders of the data folder.
const (
	releasesFolder  = "releases"
	artifactsFolder = "artifacts"
	codeHostFolder  = "codehost"
	engineFolder    = "engine"
)

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

// shown returns the path of a file as a person would type it: relative if it is below the working directory.
func (f *folder) shown(name string) string {
	at, err := os.Getwd()
	if err != nil {
		return f.file(name)
	}
	if short, err := filepath.Rel(at, f.file(name)); err == nil && filepath.IsLocal(short) {
		return short
	}
	return f.file(name)
}

// read decodes a JSON file of the folder. It reports whether the file exists.
func (f *folder) read(name string, into any) (bool, error) {
	text, err := os.ReadFile(f.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("read %s: it is not JSON as written by svc", f.file(name)) // err may quote it
	}
	return true, nil
}

// write replaces a JSON file of the folder atomically. Only its owner can read it.
func (f *folder) write(name string, v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // scripts may read URLs with & by sed
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	return f.replace(name, text.Bytes())
}

// replace replaces a file of the folder, as write does.
func (f *folder) replace(name string, text []byte) error {
	return atomicfile.Write(f.file(name), text, 0o600)
}

// secrets are created once, so that people stay signed in over a restart.
type secrets struct {
	EngineSharedSecret string `json:"engineSharedSecret"`
	AuthSecret         string `json:"authSecret"`
	VaultMasterKey     string `json:"vaultMasterKey"`
	OAuthClientSecret  string `json:"oauthClientSecret"` // shared by the REST service and the code host
	CodeHostToken      string `json:"codeHostToken"`     // of the code host, may push
	CodeHostReadToken  string `json:"codeHostReadToken"` // of the code host
}

// secrets reads the secrets and creates missing ones.
func (f *folder) secrets() (secrets, error) {
	var s secrets
	if _, err := f.read("secrets.json", &s); err != nil {
		return s, err
	}
	complete := true
	for _, secret := range []*string{&s.EngineSharedSecret, &s.AuthSecret, &s.VaultMasterKey, &s.OAuthClientSecret,
		&s.CodeHostToken, &s.CodeHostReadToken} {
		if *secret == "" {
			*secret, complete = rand.Text()+rand.Text(), false
		}
	}
	if complete {
		return s, nil
	}
	return s, f.write("secrets.json", s)
}
