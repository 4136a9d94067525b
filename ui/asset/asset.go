// Package asset holds the files of the web app that browsers load beside its pages:
// style, scripts, font, icon. Each is served under a name that changes with what is in
// it, and so may be kept for ever.
package asset

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"math"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tdewolff/minify/v2/js"

	"svc/http/middleware"
	"svc/ui/kit"
)

// files are the sources. css/*.css are concatenated to app.css in the order of their names.
// js/htmx.js is htmx 4.0.1, unmodified; the fonts are Inter 5.3. A LICENSE is beside each.
//
//go:embed css/*.css js/*.js font/*.woff2 icon.svg
var files embed.FS

// A Set is all files, under the names by which pages have them.
type Set struct{ files map[string]file }

type file struct {
	path, media string
	text, gzip  []byte // gzip is nil where it is no shorter
}

const prefix = "/assets/"

// policy is what the worker of live updates may do, which goes by that of its own file.
const policy = "default-src 'none'; connect-src 'self'; frame-ancestors 'none'"

// New reads the files.
func New() *Set {
	s := &Set{map[string]file{}}
	for _, pattern := range []string{"js/*.js", "font/*.woff2", "icon.svg"} {
		for _, name := range glob(pattern) {
			s.add(path.Base(name), minified(name, read(name)))
		}
	}
	s.add("app.css", joined("css")) // the last: it names fonts
	s.files["icons.svg"] = file{path: kit.SpritePath, media: mediaOf(".svg"), text: kit.Sprite, gzip: compressed(kit.Sprite)}
	return s
}

func glob(pattern string) []string {
	list, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err) // the patterns are fixed
	}
	slices.Sort(list)
	return list
}

func read(name string) []byte {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return text
}

// minified shortens scripts, which saves a seventh of what browsers load of ours. htmx.js comes minified.
func minified(name string, text []byte) []byte {
	if path.Ext(name) != ".js" || path.Base(name) == "htmx.js" {
		return text
	}
	var out bytes.Buffer
	if err := js.Minify(nil, &out, bytes.NewReader(text), nil); err != nil {
		panic(err) // it does not parse, which the first test finds
	}
	return out.Bytes()
}

func joined(folder string) []byte {
	var out []byte
	for _, name := range glob(folder + "/*") {
		out = append(append(out, read(name)...), '\n')
	}
	return out
}

func (s *Set) add(name string, text []byte) {
	if path.Ext(name) == ".css" { // fonts have names of their own
		for other, f := range s.files {
			text = bytes.ReplaceAll(text, []byte("asset("+other+")"), []byte("url("+f.path+")"))
		}
	}
	sum := sha256.Sum256(text)
	ext := path.Ext(name)
	s.files[name] = file{
		path:  prefix + strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:6]) + ext,
		media: mediaOf(ext), text: text, gzip: compressed(text),
	}
}

// mediaOf does not ask the machine, whose table may say something else.
func mediaOf(ext string) string {
	switch ext {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".woff2":
		return "font/woff2"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream" // no file of ours
}

// compressed returns text compressed, nil if that is no shorter.
func compressed(text []byte) []byte {
	if out := middleware.Gzip(text); len(out) < len(text) {
		return out
	}
	return nil
}

// URL returns the path of a file. It panics if there is none of that name.
func (s *Set) URL(name string) string {
	f, ok := s.files[name]
	if !ok {
		panic("asset: no " + name)
	}
	return f.path
}

// States is the name of a style sheet that [Set.AddStates] adds.
const States = "states.css"

// AddStates adds the style anew, in which what is under a pointer has the class hovered, and what
// has the focus by keyboard the class focused: a page can show those states without either.
func (s *Set) AddStates() {
	text := bytes.ReplaceAll(s.files["app.css"].text, []byte(":hover"), []byte(".hovered"))
	s.add(States, bytes.ReplaceAll(text, []byte(":focus-visible"), []byte(".focused")))
}

// Tokens returns the names of the custom properties of the style that are colours, such as
// --accent, and those that are fonts, such as --type-body, in the order of the file.
func Tokens() (colours, types []string) {
	for line := range strings.Lines(string(read("css/10-tokens.css"))) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); {
		case !ok || !strings.HasPrefix(name, "--"):
		case strings.HasPrefix(name, "--type-"):
			types = append(types, name)
		case strings.HasPrefix(value, "light-dark(") || strings.HasPrefix(value, "#"):
			colours = append(colours, name)
		}
	}
	return colours, types
}

// Size returns the bytes of a file as they are sent to a browser.
func (s *Set) Size(name string) int {
	if f := s.files[name]; f.gzip != nil {
		return len(f.gzip)
	}
	return len(s.files[name].text)
}

// Mount serves the files.
func (s *Set) Mount(handle func(method, path string, limits middleware.Limits, handler http.Handler)) {
	for _, f := range s.files {
		handle(http.MethodGet, f.path, middleware.Limits{Policy: policy}, http.HandlerFunc(f.serve))
	}
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.media)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	text := f.text
	if f.gzip != nil && middleware.WantsGzip(r.Header, math.MaxInt) {
		h.Set("Content-Encoding", "gzip")
		text = f.gzip
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // if it fails the browser has gone
}
