package wire

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of the manifest of an upload.
const (
	MaxManifest = 1 << 20 // bytes
	MaxFiles    = 1000
)

const (
	maxPath    = 1024 // bytes
	maxElement = 255  // bytes; the limit of common file systems
)

// PathProblem returns what is wrong with the path of an artifact's file, or "" if it can be
// extracted on every operating system and stays below the directory it is extracted to.
func PathProblem(p string) string {
	switch {
	case p == "" || len(p) > maxPath:
		return "must have 1 to 1024 bytes"
	case !Readable(p):
		return "must be UTF-8 text without control characters, or others that nobody sees"
	case strings.ContainsAny(p, `\<>:"|?*`):
		return `must not have any of \ < > : " | ? *`
	}
	for element := range strings.SplitSeq(p, "/") {
		if text := elementProblem(element); text != "" {
			return text
		}
	}
	return ""
}

func elementProblem(element string) string {
	switch {
	case element == "" || element == "." || element == "..":
		return "must be relative, with no empty element, and none that is . or .."
	case len(element) > maxElement:
		return "must have elements of 255 bytes or fewer"
	case strings.HasSuffix(element, ".") || strings.HasSuffix(element, " ") || strings.HasPrefix(element, " "):
		return "must not have elements that begin or end with a space, or end with a dot"
	case isDevice(element):
		return "must not have an element that names a device of Windows"
	}
	return ""
}

// Readable reports whether a text is valid and has no control, invisible or replacement characters.
// U+FFFD is what decoders substitute for invalid text.
func Readable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || r != '\u200c' && r != '\u200d' &&
			unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
	})
}

// isDevice reports whether Windows takes a path element for a device. It ignores what follows the
// first dot: CON, con.txt, COM¹.
func isDevice(element string) bool {
	base, _, _ := strings.Cut(element, ".")
	base = strings.ToUpper(strings.TrimRight(norm.NFKC.String(base), " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	return len(base) == 4 && (strings.HasPrefix(base, "COM") || strings.HasPrefix(base, "LPT")) && base[3] >= '0' && base[3] <= '9'
}

// fold returns a key that is equal for two names if some file system takes them for the same file,
// because it folds case, normalizes Unicode, or drops invisible characters.
func fold(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\u200c' || r == '\u200d' || unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		return r
	}, s)
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s)))
}

// A PathSet has the paths of files by artifact. Each artifact has its own directory tree.
type PathSet map[string]*tree

// Add adds a file's path. It returns false if on some system the path would collide with another
// file or directory of the artifact.
func (p PathSet) Add(artifact, path string) bool {
	artifact = fold(artifact)
	if p[artifact] == nil {
		p[artifact] = newTree()
	}
	return p[artifact].add(path)
}

// A tree has the paths of one artifact, folded.
type tree struct {
	files map[string]bool
	dirs  map[string]bool
}

func newTree() *tree { return &tree{map[string]bool{}, map[string]bool{}} }

// add adds a path, and reports whether it collides with none.
func (t *tree) add(p string) bool {
	p = fold(p)
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
