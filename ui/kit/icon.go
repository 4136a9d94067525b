// Package kit is the design system: the components that every page is made of. Each is
// shown in every state on the page /kit, which is there in development.
package kit

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/a-h/templ"
)

// The icons are those of Lucide 1.62, and github of 0.475, which icons/LICENSE is about.
//
//go:embed icons/*.svg
var iconFiles embed.FS

// Sprite is the file of all icons.
var Sprite = newSprite()

// SpritePath is where pages expect that file: a path that changes with what is in it.
var SpritePath = spritePath(Sprite)

var icons = iconsOf(SpritePath)

var (
	iconComment = regexp.MustCompile(`(?s)<!--.*?-->\s*`)
	iconHead    = regexp.MustCompile(`(?s)<svg.*?>`)
	iconSpaces  = regexp.MustCompile(`\s*\n\s*`)
)

func iconNames() (names []string) {
	list, err := fs.Glob(iconFiles, "icons/*.svg")
	if err != nil {
		panic(err) // the pattern is fixed
	}
	for _, name := range list {
		names = append(names, strings.TrimSuffix(path.Base(name), ".svg"))
	}
	return names
}

// newSprite leaves of the files what every icon does not have.
func newSprite() []byte {
	var out strings.Builder
	out.WriteString(`<svg xmlns="http://www.w3.org/2000/svg">`)
	for _, name := range iconNames() {
		file, err := iconFiles.ReadFile("icons/" + name + ".svg")
		if err != nil {
			panic(err) // it is embedded
		}
		svg := iconComment.ReplaceAllString(string(file), "")
		svg = iconHead.ReplaceAllString(svg, `<symbol id="`+name+`" viewBox="0 0 24 24">`)
		svg = strings.Replace(svg, "</svg>", "</symbol>", 1)
		out.WriteString(iconSpaces.ReplaceAllString(strings.TrimSpace(svg), ""))
	}
	out.WriteString("</svg>")
	return []byte(out.String())
}

func spritePath(text []byte) string {
	sum := sha256.Sum256(text)
	return "/assets/icons-" + hex.EncodeToString(sum[:6]) + ".svg"
}

func iconsOf(sprite string) map[string]templ.Component {
	out := map[string]templ.Component{}
	for _, name := range iconNames() {
		out[name] = templ.Raw(`<svg class="icon" aria-hidden="true"><use href="` + sprite + "#" + name + `"></use></svg>`)
	}
	return out
}

// Icon shows one of the files in icons by its name without .svg. It says nothing to
// those who hear the page: a word stands beside it.
func Icon(name string) templ.Component {
	icon, ok := icons[name]
	if !ok {
		panic("kit: no icon " + name)
	}
	return icon
}
