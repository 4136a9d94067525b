package release

import (
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var moment = time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	return key
}

// packed packs a release of two programs that print their platform.
func packed(t *testing.T, dir, version string, key ed25519.PrivateKey) {
	t.Helper()
	from := t.TempDir()
	var builds []Build
	for _, arch := range []string{"amd64", "arm64"} {
		path := filepath.Join(from, arch)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho "+version+" "+arch+"\n"), 0o755))
		builds = append(builds, Build{"linux", arch, path})
	}
	require.NoError(t, Pack(dir, Latest{Version: version, MinProtocol: "svc-farm.v1", NotBefore: moment}, builds, key))
}

func publics(keys ...ed25519.PrivateKey) (list []ed25519.PublicKey) {
	for _, k := range keys {
		list = append(list, k.Public().(ed25519.PublicKey))
	}
	return list
}

func TestPackedReleaseIsValid(t *testing.T) {
	t.Parallel()
	dir, key := filepath.Join(t.TempDir(), "releases"), newKey(t)
	packed(t, dir, "1.2.3", key)
	for name, keys := range map[string][]ed25519.PublicKey{"its own keys": nil, "a pinned key": publics(newKey(t), key)} {
		folder := NewFolder(dir, keys)
		r, err := folder.Release()
		require.NoError(t, err, name)
		require.Equal(t, "1.2.3", r.Version)
		require.Equal(t, "svc-farm.v1", r.MinProtocol)
		require.True(t, moment.Equal(r.NotBefore))
		require.Equal(t, []string{"svc-runner_linux_amd64.gz", "svc-runner_linux_arm64.gz"}, r.Files)
		require.Empty(t, folder.Missing())
		require.NoError(t, VerifyFolder(dir, keys))
	}
	text, err := os.ReadFile(filepath.Join(dir, LatestFile))
	require.NoError(t, err)
	require.JSONEq(t, `{"version":"1.2.3","minProtocol":"svc-farm.v1","notBefore":"2026-11-22T18:00:00.000Z"}`, string(text))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 5, "the lock, but no work is left")

	f, err := os.Open(filepath.Join(dir, "1.2.3", Name("linux", "arm64")))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	program, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, "#!/bin/sh\necho 1.2.3 arm64\n", string(program))
}

// A release can be verified with standard tools alone.
func TestOpenSSLAndSha256sumVerifyRelease(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "release.key")
	key, err := OpenKey(path)
	require.NoError(t, err)
	packed(t, dir, "1.2.3", key)
	sums := exec.CommandContext(t.Context(), "sha256sum", "-c", "1.2.3/SHA256SUMS")
	sums.Dir = dir
	out, err := sums.CombinedOutput()
	require.NoError(t, err, string(out))

	encoded, err := os.ReadFile(filepath.Join(dir, "1.2.3", SignatureFile))
	require.NoError(t, err)
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(encoded)))
	require.NoError(t, err)
	raw := filepath.Join(t.TempDir(), "sig")
	require.NoError(t, os.WriteFile(raw, signature, 0o600))
	out, err = exec.CommandContext(t.Context(), "openssl", "pkeyutl", "-verify", "-rawin", "-inkey", path,
		"-sigfile", raw, "-in", filepath.Join(dir, "1.2.3", SumsFile)).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "Successfully")

	opensslVerifies := exec.CommandContext(t.Context(), "sh", "-c", `
		openssl base64 -d -A -in latest.json.sig -out "$1"
		{ echo "svc-runner latest.json"; cat latest.json; } >"$2"
		openssl pkeyutl -verify -rawin -inkey "$3" -sigfile "$1" -in "$2"`, "sh", raw, filepath.Join(t.TempDir(), "text"), path)
	opensslVerifies.Dir = dir
	out, err = opensslVerifies.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "Successfully")
}

func TestFolderReportsWhatIsMissing(t *testing.T) {
	t.Parallel()
	amd := "1.2.3/" + Name("linux", "amd64")
	for name, c := range map[string]struct {
		spoil func(dir string) error
		path  string
	}{
		"empty folder":              {os.RemoveAll, ""},
		"no latest":                 {func(dir string) error { return os.Remove(filepath.Join(dir, LatestFile)) }, LatestFile},
		"latest is no JSON":         {write(LatestFile, "1.2.3"), LatestFile},
		"latest leaves the folder":  {write(LatestFile, `{"version":"../1.2.3"}`), LatestFile},
		"latest version is missing": {write(LatestFile, `{"version":"1.2.4"}`), LatestSignatureFile},
		"latest was changed":        {changed(LatestFile, "2026-11-22", "2026-11-21"), LatestSignatureFile},
		"latest is unsigned":        {func(dir string) error { return os.Remove(filepath.Join(dir, LatestSignatureFile)) }, LatestSignatureFile},
		"newer protocol":            {repacked("svc-farm.v2"), LatestFile},
		"protocol of another kind":  {repacked("svc-farm.next"), LatestFile},
		"latest signed like sums": {func(dir string) error {
			return os.Rename(filepath.Join(dir, "1.2.3", SignatureFile), filepath.Join(dir, LatestSignatureFile))
		}, LatestSignatureFile},
		"no keys":           {func(dir string) error { return os.Remove(filepath.Join(dir, KeysFile)) }, KeysFile},
		"truncated key":     {write(KeysFile, "ed25519:AAAA\n"), KeysFile},
		"an empty key file": {write(KeysFile, "\n"), KeysFile},
		"unknown key":       {write(KeysFile, FormatKey(publics(newKey(t))[0])), LatestSignatureFile},
		"no sums":           {func(dir string) error { return os.Remove(filepath.Join(dir, "1.2.3", SumsFile)) }, "1.2.3/" + SumsFile},
		"no signature": {func(dir string) error { return os.Remove(filepath.Join(dir, "1.2.3", SignatureFile)) },
			"1.2.3/" + SignatureFile},
		"truncated signature": {write("1.2.3/"+SignatureFile, "AAAA"), "1.2.3/" + SignatureFile},
		"other sums":          {write("1.2.3/"+SumsFile, strings.Repeat("0", 64)+"  "+amd+"\n"), "1.2.3/" + SignatureFile},
		"too large sums":      {write("1.2.3/"+SumsFile, strings.Repeat("0", maxText+1)), "1.2.3/" + SumsFile},
		"missing program":     {func(dir string) error { return os.Remove(filepath.Join(dir, amd)) }, amd},
		"another program":     {write(amd, "other"), amd},
		"link out of the folder": {func(dir string) error {
			return os.Rename(filepath.Join(dir, amd), filepath.Join(filepath.Dir(dir), "moved")) // and below: linked to
		}, amd},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, key := filepath.Join(t.TempDir(), "releases"), newKey(t)
			packed(t, dir, "1.2.3", key)
			folder := NewFolder(dir, nil)
			_, err := folder.Release()
			require.NoError(t, err)
			require.NoError(t, c.spoil(dir))
			if name == "link out of the folder" {
				require.NoError(t, os.Symlink(filepath.Join(filepath.Dir(dir), "moved"), filepath.Join(dir, amd)))
			}
			for range 2 { // from the cache too
				_, err = folder.Release()
				var fault *FolderError
				require.ErrorAs(t, err, &fault)
				require.Equal(t, c.path, fault.Path, err)
			}
			want := strings.TrimSuffix("SVC_FARM_RELEASES_DIR/"+c.path, "/")
			require.Equal(t, []string{want}, folder.Missing())
		})
	}
	folder := NewFolder("", nil)
	require.Equal(t, []string{"SVC_FARM_RELEASES_DIR"}, folder.Missing())
	_, err := folder.Release()
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// What could not be read is read again, although nothing about the files that their size and time show
// has changed.
func TestFolderForgetsReadErrors(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "releases")
	packed(t, dir, "1.2.3", newKey(t))
	keys := filepath.Join(dir, KeysFile)
	require.NoError(t, os.Remove(keys))
	require.NoError(t, os.Symlink(KeysFile, keys)) // cannot be opened, even by root
	folder := NewFolder(dir, nil)
	_, err := folder.Release()
	require.Error(t, err)
	require.NotErrorIs(t, err, fs.ErrNotExist)

	require.NoError(t, os.Remove(keys))
	_, err = folder.Release()
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// repacked packs a release that needs a protocol.
func repacked(protocol string) func(string) error {
	return func(dir string) error {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return err
		}
		builds := []Build{{"linux", "amd64", filepath.Join(dir, KeysFile)}}
		return Repack(dir, Latest{Version: "1.2.4", MinProtocol: protocol}, builds, key)
	}
}

// A release may be packed after latest.json was read and before the other files are.
func TestFolderForgetsEarlierLatest(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), newKey(t)
	packed(t, dir, "1.2.3", key)
	before, err := os.ReadFile(filepath.Join(dir, LatestFile))
	require.NoError(t, err)
	program := filepath.Join(dir, KeysFile)
	latest := Latest{Version: "1.2.3", NotBefore: moment.Add(time.Hour)}
	require.NoError(t, Repack(dir, latest, []Build{{"linux", "amd64", program}}, key))
	folder := NewFolder(dir, nil)
	root, err := folder.Open()
	require.NoError(t, err)
	defer root.Close()
	_, err = folder.verified(root, before, "1.2.3")
	require.ErrorIs(t, err, ErrSignature)
	r, err := folder.Release()
	require.NoError(t, err)
	require.True(t, latest.NotBefore.Equal(r.NotBefore))
}

func write(name, text string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
}

func changed(name, from, to string) func(string) error {
	return func(dir string) error {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		return write(name, strings.Replace(string(text), from, to, 1))(dir)
	}
}

// latest.json and SHA256SUMS are signed with the same key.
func TestSignaturesAreNotInterchangeable(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), newKey(t)
	packed(t, dir, "1.2.3", key)
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return text
	}
	latest, signature := read(LatestFile), read(LatestSignatureFile)
	l, err := VerifyLatest(latest, signature, publics(newKey(t), key))
	require.NoError(t, err)
	require.Equal(t, "1.2.3", l.Version)
	require.True(t, moment.Equal(l.NotBefore))
	_, err = VerifyLatest(latest, signature, publics(newKey(t)))
	require.ErrorIs(t, err, ErrSignature)
	_, err = VerifyLatest(latest, sign(latest, key), publics(key))
	require.ErrorIs(t, err, ErrSignature, "as sums are signed")
	sums := read("1.2.3/" + SumsFile)
	_, err = Verify(sums, sign(latestMessage(sums), key), publics(key))
	require.ErrorIs(t, err, ErrSignature, "as latest.json is signed")
	_, err = Verify(latestMessage(latest), signature, publics(key))
	require.ErrorContains(t, err, "line 1 of the sums is malformed", "what was signed, taken for sums")
}

// Releases were packed like this before latest.json was signed.
func TestUnsignedLatestIsReported(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), newKey(t)
	packed(t, dir, "1.3.0", key)
	require.NoError(t, os.Remove(filepath.Join(dir, LatestSignatureFile)))
	require.ErrorContains(t, VerifyFolder(dir, nil), "did not sign latest.json; pack it again")
	require.Equal(t, []string{"SVC_FARM_RELEASES_DIR/latest.json.sig"}, NewFolder(dir, nil).Missing())
	_, err := VerifyLatestFile(filepath.Join(dir, LatestFile), publics(key))
	require.ErrorIs(t, err, fs.ErrNotExist)

	// An unsigned latest.json does not keep a service on an old release.
	build := Build{"linux", "amd64", filepath.Join(dir, KeysFile)}
	err = Pack(dir, Latest{Version: "1.2.9"}, []Build{build}, key)
	require.ErrorContains(t, err, "latest.json names the later release 1.3.0, for which nobody vouches")
	require.NoError(t, write(LatestSignatureFile, string(sign([]byte("x"), key)))(dir))
	require.ErrorIs(t, Pack(dir, Latest{Version: "1.2.9"}, []Build{build}, key), ErrSignature)
	packed(t, dir, "1.3.0", key)
	require.NoError(t, VerifyFolder(dir, nil))
}

// Complete, signed sums of an older release are in the folder of a newer one.
func TestOldSumsAreRefusedForNewRelease(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), newKey(t)
	packed(t, dir, "1.2.3", key)
	packed(t, dir, "1.3.0", key)
	require.NoError(t, VerifyFolder(dir, nil))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "1.3.0")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "1.3.0"), os.DirFS(filepath.Join(dir, "1.2.3"))))
	require.ErrorContains(t, VerifyFolder(dir, nil), "it is that of release 1.2.3")
	program := filepath.Join(dir, "1.3.0", Name("linux", "amd64"))
	_, err := VerifyFile(program, "1.3.0", publics(key))
	require.ErrorContains(t, err, "the sums are those of release 1.2.3, not 1.3.0")
	sums, err := VerifyFile(program, "", publics(key))
	require.NoError(t, err)
	require.Equal(t, "1.2.3", sums.Version)
}

func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	line := func(version, name string) string {
		return fmt.Sprintf("%x  %s/%s\n", sha256.Sum256(nil), version, name)
	}
	good := line("1.2.3", "svc-runner_linux_amd64.gz")
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                {"", "there are no sums"},
		"no line":                {"\n", "line 1 of the sums is malformed"},
		"no last newline":        {strings.TrimSpace(good), "malformed"},
		"a folder":               {line("1.2.3/..", "svc-runner_linux_amd64.gz"), "malformed"},
		"name leaves the folder": {line("1.2.3", "../svc-runner_linux_amd64.gz"), "malformed"},
		"another program":        {line("1.2.3", "sh"), "malformed"},
		"incomplete version":     {line("1.2", "svc-runner_linux_amd64.gz"), "malformed"},
		"truncated digest":       {"00" + good[64:], "malformed"},
		"digest is not hex":      {strings.Repeat("z", 64) + good[64:], "malformed"},
		"repeated name":          {good + good, "two sums"},
		"two releases":           {good + line("1.2.4", "svc-runner_linux_arm64.gz"), "in one release"},
	} {
		signature := base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(c.text)))
		_, err := Verify([]byte(c.text), []byte(signature), publics(key))
		require.ErrorContains(t, err, c.want, name)
	}
	signature := base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(good)))
	sums, err := Verify([]byte(good), []byte(signature+"\n"), publics(newKey(t), key))
	require.NoError(t, err)
	require.NoError(t, sums.Check("svc-runner_linux_amd64.gz", strings.NewReader("")))
	require.ErrorContains(t, sums.Check("svc-runner_linux_amd64.gz", strings.NewReader("x")), "is not what release 1.2.3 says")
	require.ErrorContains(t, sums.Check("svc-runner_plan9_amd64.gz", strings.NewReader("")), "is not in release 1.2.3")
	for name, keys := range map[string][]ed25519.PublicKey{"no key": nil, "another": publics(newKey(t)),
		"incomplete version": {key.Public().(ed25519.PublicKey)[:31]}} {
		_, err = Verify([]byte(good), []byte(signature), keys)
		require.ErrorIs(t, err, ErrSignature, name)
	}
	for _, text := range []string{"", "AAAA", signature[:40], signature + signature, strings.Repeat("!", 88)} {
		_, err = Verify([]byte(good), []byte(text), publics(key))
		require.Error(t, err)
	}
}

func TestKeysArePersisted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "release.key")
	made, err := OpenKey(path)
	require.NoError(t, err)
	again, err := OpenKey(path)
	require.NoError(t, err)
	require.True(t, made.Equal(again))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())

	parsed, err := ParseKeys([]string{FormatKey(publics(made)[0])})
	require.NoError(t, err)
	require.Equal(t, publics(made), parsed)
	for _, text := range []string{"", "ed25519:", "rsa:AAAA", FormatKey(publics(made)[0]) + "A", "ed25519:AAAA"} {
		_, err = ParseKey(text)
		require.Error(t, err, text)
	}
	for _, text := range []string{"", "not a key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		other := filepath.Join(t.TempDir(), "other.key")
		require.NoError(t, os.WriteFile(other, []byte(text), 0o600))
		_, err = OpenKey(other)
		require.Error(t, err)
		kept, err := os.ReadFile(other)
		require.NoError(t, err)
		require.Equal(t, text, string(kept), "what is there stays")
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	require.True(t, IsVersion(Version))
	for text, ok := range map[string]bool{
		"1.2.3": true, "0.39.0-rc.1": true, "1.2": false, "v1.2.3": false, "1.2.3+build": false, "01.2.3": false,
		"1.2.3/..": false, "": false, "..": false, "1.2.3-" + strings.Repeat("a", 64): false,
	} {
		require.Equal(t, ok, IsVersion(text), text)
	}
	require.Negative(t, Compare("1.9.0", "1.10.0"))
	require.Positive(t, Compare("1.9.0", "1.9.0-rc.1"))
	require.Zero(t, Compare("1.9.0", "1.9.0"))
}
