package wire

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Bounds of the manifest of an upload.
const (
	MaxManifest = 1 << 20 // bytes
	MaxFiles    = 1000
)

const (
	maxPath    = 1024 // bytes
	maxElement = 255  // bytes: what common file systems have room for
)

// BadPath says what is wrong with a file's path; "" if it can be unpacked on every
// system below a directory, and nowhere else.
func BadPath(p string) string {
	switch {
	case p == "" || len(p) > maxPath:
		return "must have 1 to 1024 bytes"
	case !Readable(p):
		return "must be UTF-8 text without control characters, or others that nobody sees"
	case strings.ContainsAny(p, `\<>:"|?*`):
		return `must not have any of \ < > : " | ? *`
	}
	for element := range strings.SplitSeq(p, "/") {
		if text := badElement(element); text != "" {
			return text
		}
	}
	return ""
}

func badElement(element string) string {
	switch {
	case element == "" || element == "." || element == "..":
		return "must be relative, with no empty element, and none that is . or .."
	case len(element) > maxElement:
		return "must have elements of 255 bytes or fewer"
	case strings.HasSuffix(element, ".") || strings.HasSuffix(element, " ") || strings.HasPrefix(element, " "):
		return "must not have elements that begin or end with a space, or end with a dot"
	case device(element):
		return "must not have an element that names a device of Windows"
	}
	return ""
}

// Readable reports whether a text is what it looks like. U+FFFD is what a decoder makes of
// what is no text.
func Readable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || r != '\u200c' && r != '\u200d' &&
			unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
	})
}

// device reports whether Windows takes an element for a device, as it does whatever
// follows the first dot: CON, con.txt, COM¹.
func device(element string) bool {
	base, _, _ := strings.Cut(element, ".")
	base = strings.ToUpper(strings.TrimRight(norm.NFKC.String(base), " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	return len(base) == 4 && (strings.HasPrefix(base, "COM") || strings.HasPrefix(base, "LPT")) && base[3] >= '0' && base[3] <= '9'
}

// sameness returns what two texts have in common that are one file on some system: one
// that folds case, normalizes, or leaves out what is not seen.
func sameness(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\u200c' || r == '\u200d' || unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		return r
	}, s)
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s)))
}

// Places are where the files of artifacts lie, those of each in a tree of its own.
type Places map[string]*tree

// Add adds a file, and reports whether there is room for it: it is one file's alone on every system,
// and no other's directory.
func (p Places) Add(artifact, path string) bool {
	artifact = sameness(artifact)
	if p[artifact] == nil {
		p[artifact] = newTree()
	}
	return p[artifact].add(path)
}

// A tree finds paths of which one could not lie beside another.
type tree struct {
	files map[string]bool
	dirs  map[string]bool
}

func newTree() *tree { return &tree{map[string]bool{}, map[string]bool{}} }

// add adds a path, and reports whether there is room for it.
func (t *tree) add(p string) bool {
	p = sameness(p)
	if t.files[p] || t.dirs[p] {
		return false
	}
	for i, r := range p {
		if r == '/' && t.files[p[:i]] {
			return false
		}
	}
	t.files[p] = true
	for i, r := range p {
		if r == '/' {
			t.dirs[p[:i]] = true
		}
	}
	return true
}
