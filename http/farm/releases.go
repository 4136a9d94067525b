package farm

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // install.sh
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"svc/aggregates/farm"
	"svc/farm/release"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/http/router"
)

//go:embed install.sh
var installer string

var errNoRelease = fault.New(fault.NotFound, "release_missing", "There is no release of the runner to install here.")

// Releases serves what a machine needs to become a runner: the installer at /install.sh, and the
// releases of the agent below /runner/. No authentication is needed.
type Releases struct {
	Enabled   bool
	Folder    *release.Folder
	PublicURL *url.URL // of the gateway; if nil there is no installer
	Log       *slog.Logger
}

// downloadTimeout is the time limit of a download on a slow line.
const downloadTimeout = 15 * time.Minute

// Handler returns the handler of /install.sh and /runner/.
func (s Releases) Handler() http.Handler {
	routes := router.New(router.Refuse(s.Log, router.ErrNotFound), router.Refuse(s.Log, router.ErrMethod))
	for path, serve := range map[string]func(*http.Request) (file, error){
		"/install.sh":              s.installer,
		"/runner/latest.json":      func(*http.Request) (file, error) { return s.open(release.LatestFile, "application/json") },
		"/runner/latest.json.sig":  func(*http.Request) (file, error) { return s.open(release.LatestSignatureFile, plainText) },
		"/runner/release.pub":      func(*http.Request) (file, error) { return s.open(release.KeysFile, plainText) },
		"/runner/{version}/{name}": s.version,
	} {
		routes.Handle(router.Route{
			Method: http.MethodGet, Path: path, Limits: middleware.Limits{Time: downloadTimeout},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, serve) }),
		})
	}
	return routes
}

// A file is a download.
type file struct {
	fs.File
	text []byte // content if File is nil
	size int64
	kind string // media type
	tag  string // entity tag, which changes with the content
	at   time.Time
}

func (s Releases) serve(w http.ResponseWriter, r *http.Request, open func(*http.Request) (file, error)) {
	if !s.Enabled {
		reply.Error(w, r, s.Log, farm.ErrFarmOff)
		return
	}
	f, err := open(r)
	if err != nil {
		reply.Error(w, r, s.Log, err)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "no-cache") // cacheable, but must be revalidated
	w.Header().Set("Etag", `"`+f.tag+`"`)
	if f.File == nil {
		reply.ServeContent(w, r, f.size, f.at, bytes.NewReader(f.text))
		return
	}
	defer f.Close()
	reply.ServeContent(w, r, f.size, f.at, f.File.(*os.File))
}

const plainText = "text/plain; charset=utf-8"

func (s Releases) version(r *http.Request) (file, error) {
	version, name := r.PathValue("version"), r.PathValue("name")
	switch {
	case !release.IsVersion(version):
	case release.IsProgram(name):
		return s.open(path.Join(version, name), "application/gzip")
	case name == release.SumsFile || name == release.SignatureFile:
		return s.open(path.Join(version, name), plainText)
	}
	return file{}, router.ErrNotFound
}

// open opens a file of the releases folder. Links cannot lead out of the folder.
func (s Releases) open(name, kind string) (file, error) {
	root, err := s.Folder.Open()
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, router.ErrNotFound
	}
	if err != nil {
		return file{}, fmt.Errorf("open the releases: %w", err)
	}
	defer root.Close()
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, router.ErrNotFound
	}
	if err != nil {
		return file{}, fmt.Errorf("open %s of the releases: %w", name, err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return file{}, errors.Join(router.ErrNotFound, err, f.Close())
	}
	tag := fmt.Sprintf("%x-%x", info.Size(), info.ModTime().UnixNano())
	return file{File: f, size: info.Size(), kind: kind, tag: tag, at: info.ModTime()}, nil
}

// installer returns install.sh only if the latest release is complete and signed.
func (s Releases) installer(r *http.Request) (file, error) {
	latest, err := s.Folder.Release()
	if err != nil {
		s.Log.WarnContext(r.Context(), "no release can be installed", "err", err)
		return file{}, errNoRelease
	}
	if s.PublicURL == nil {
		s.Log.WarnContext(r.Context(), "no release can be installed: SVC_FARM_PUBLIC_URL is not set")
		return file{}, errNoRelease
	}
	text := []byte(script(s.PublicURL, latest))
	tag := fmt.Sprintf("%x", sha256.Sum256(text))
	return file{text: text, size: int64(len(text)), kind: "text/x-shellscript; charset=utf-8", tag: tag}, nil
}

// script returns install.sh with the values of this service filled in.
func script(gateway *url.URL, latest release.Release) string {
	var keys []string
	for _, key := range latest.Keys {
		keys = append(keys, release.FormatKey(key))
	}
	address := "https://" + gateway.Host
	return strings.NewReplacer(
		"__FARM_URL__", quote(address), "__VERSION__", quote(latest.Version), "__KEYS__", quote(strings.Join(keys, " ")),
	).Replace(installer)
}

// quote returns text as a single shell word.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
