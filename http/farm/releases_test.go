package farm

import (
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/release"
)

// releases serves a folder with a release of two programs, and other files.
func releases(t *testing.T) (dir string, handler http.Handler) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "releases")
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "svc-runner")
	require.NoError(t, os.WriteFile(program, []byte(strings.Repeat("program ", 1000)), 0o600))
	builds := []release.Build{{OS: "linux", Arch: "amd64", Path: program}, {OS: "linux", Arch: "arm64", Path: program}}
	require.NoError(t, release.Pack(dir, release.Latest{Version: "1.2.3", MinProtocol: "svc-farm.v1"}, builds, key))
	outside := filepath.Join(filepath.Dir(dir), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "release.key"), []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1.2.3", ".hidden"), []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "1.2.3", release.Name("linux", "riscv64"))))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "1.2.3", release.Name("linux", "folder")), 0o700))
	return dir, served(t, dir, true)
}

func served(t *testing.T, dir string, on bool) http.Handler {
	t.Helper()
	address, err := url.Parse("https://farm.example:4443/")
	require.NoError(t, err)
	return Releases{Enabled: on, Folder: release.NewFolder(dir, nil), PublicURL: address, Log: slog.New(slog.DiscardHandler)}.Handler()
}

func ask(t *testing.T, handler http.Handler, method, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://farm.example", nil)
	var err error
	r.URL, err = url.ParseRequestURI(target)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}

func code(t *testing.T, res *http.Response) string {
	t.Helper()
	var body struct{ Code string }
	require.NoError(t, json.Unmarshal([]byte(text(t, res)), &body))
	return body.Code
}

func TestFilesOfAReleaseAreServed(t *testing.T) {
	t.Parallel()
	dir, handler := releases(t)
	for name, kind := range map[string]string{
		"latest.json": "application/json", "latest.json.sig": "text/plain; charset=utf-8", "release.pub": "text/plain; charset=utf-8",
		"1.2.3/SHA256SUMS": "text/plain; charset=utf-8", "1.2.3/SHA256SUMS.sig": "text/plain; charset=utf-8",
		"1.2.3/" + release.Name("linux", "arm64"): "application/gzip",
	} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		res := ask(t, handler, "GET", "/runner/"+name)
		require.Equal(t, 200, res.StatusCode, name)
		require.Equal(t, kind, res.Header.Get("Content-Type"))
		require.Equal(t, "no-cache", res.Header.Get("Cache-Control"))
		require.Empty(t, res.Header.Get("Content-Encoding"), "it is a file, and not the encoding of one")
		require.Equal(t, string(want), text(t, res))

		tag := res.Header.Get("Etag")
		require.Equal(t, 304, ask(t, handler, "GET", "/runner/"+name, "If-None-Match", tag).StatusCode)
		res = ask(t, handler, "GET", "/runner/"+name, "Range", "bytes=1-3", "If-Range", tag)
		require.Equal(t, 206, res.StatusCode)
		require.Equal(t, string(want[1:4]), text(t, res))
		require.Equal(t, 200, ask(t, handler, "HEAD", "/runner/"+name).StatusCode)
		require.Equal(t, 405, ask(t, handler, "POST", "/runner/"+name).StatusCode)
		require.Equal(t, 405, ask(t, handler, "DELETE", "/runner/"+name).StatusCode)
	}
	for _, path := range []string{"/runner/latest.json", "/runner/1.2.3/SHA256SUMS", "/install.sh"} {
		for _, method := range []string{"GET", "HEAD"} {
			for name, c := range map[string]struct {
				header []string
				status int
				code   string
			}{
				"no such range":  {[]string{"Range", "bytes=99999999-"}, 416, "range_not_satisfiable"},
				"changed":        {[]string{"If-Match", `"another"`}, 412, "precondition_failed"},
				"changed, since": {[]string{"If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:01 GMT"}, 412, "precondition_failed"},
			} {
				if name == "changed, since" && path == "/install.sh" {
					continue // it has no time
				}
				res := ask(t, handler, method, path, c.header...)
				require.Equal(t, c.status, res.StatusCode, "%s %s: %s", method, path, name)
				require.Equal(t, "application/json", res.Header.Get("Content-Type"), name)
				require.Empty(t, res.Header.Get("Etag"), "an error is not the file")
				require.Equal(t, c.code, code(t, res), name)
			}
		}
	}
	before := ask(t, handler, "GET", "/runner/latest.json").Header.Get("Etag")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "latest.json"), []byte("{}"), 0o600))
	require.NotEqual(t, before, ask(t, handler, "GET", "/runner/latest.json").Header.Get("Etag"))
}

func TestNothingElseIsServed(t *testing.T) {
	t.Parallel()
	_, handler := releases(t)
	for _, path := range []string{
		"", "1.2.3", "1.2.3/", "release.key", "1.2.3/.hidden", "1.2.4/SHA256SUMS", "1.2.3/SHA256SUMS/", "1.2.3/" + release.Name("plan9", "amd64"),
		"1.2.3/" + release.Name("linux", "folder"), "../outside", "..%2foutside", "%2e%2e/outside", "1.2.3/../latest.json",
		"1.2.3/..%2f..%2foutside",
		"1.2.3%2fSHA256SUMS", "/latest.json", "./latest.json", "latest.json/", "latest.json%00", ".pack-1/new", "../1.2.3/SHA256SUMS",
		"1.2.3/svc-runner__.gz",
	} {
		res := ask(t, handler, "GET", "/runner/"+path)
		require.Equal(t, 404, res.StatusCode, path)
		require.Equal(t, "not_found", code(t, res), path)
	}
	res := ask(t, handler, "GET", "/runner/1.2.3/"+release.Name("linux", "riscv64"))
	require.Equal(t, 500, res.StatusCode, "a link out of the folder")
	require.NotContains(t, text(t, res), "outside")
}

func TestInstallerRequiresCompleteRelease(t *testing.T) {
	t.Parallel()
	dir, handler := releases(t)
	res := ask(t, handler, "GET", "/install.sh")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "text/x-shellscript; charset=utf-8", res.Header.Get("Content-Type"))
	script := text(t, res)
	key, err := os.ReadFile(filepath.Join(dir, release.KeysFile))
	require.NoError(t, err)
	require.Contains(t, script, "farm_url='https://farm.example:4443'\nversion='1.2.3'\nkeys='"+strings.TrimSpace(string(key))+"'")
	require.NotContains(t, script, "__")
	require.Equal(t, 304, ask(t, handler, "GET", "/install.sh", "If-None-Match", res.Header.Get("Etag")).StatusCode)
	require.Equal(t, 200, ask(t, handler, "HEAD", "/install.sh").StatusCode)
	require.Equal(t, 405, ask(t, handler, "POST", "/install.sh").StatusCode)

	require.NoError(t, os.Remove(filepath.Join(dir, "1.2.3", release.SignatureFile)))
	res = ask(t, handler, "GET", "/install.sh")
	require.Equal(t, 404, res.StatusCode, "what it would install could not be verified")
	require.Equal(t, "release_missing", code(t, res))
	require.Equal(t, "release_missing", code(t, ask(t, served(t, t.TempDir(), true), "GET", "/install.sh")), "an empty folder")
	require.Equal(t, "release_missing", code(t, ask(t, served(t, "", true), "GET", "/install.sh")), "none")
	require.Equal(t, "not_found", code(t, ask(t, served(t, "", true), "GET", "/runner/latest.json")))
	for _, path := range []string{"/install.sh", "/runner/latest.json"} {
		require.Equal(t, "farm_off", code(t, ask(t, served(t, dir, false), "GET", path)))
	}
}

// Any configured address is quoted as a single shell word.
func TestInstallerQuotesAddress(t *testing.T) {
	t.Parallel()
	address := &url.URL{Scheme: "https", Host: "a'$(id)`id`\"\\.example"}
	text := script(address, release.Release{Latest: release.Latest{Version: "1.2.3"}})
	line := text[strings.Index(text, "farm_url="):]
	line = line[:strings.Index(line, "\n")]
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line+`; printf %s "$farm_url"`).Output()
	require.NoError(t, err)
	require.Equal(t, "https://"+address.Host, string(out))
}
