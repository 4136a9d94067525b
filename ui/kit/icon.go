// Package kit is the design system: the components that pages consist of. In development,
// the page /kit shows each of them in all its states.
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

// iconFiles are icons of Lucide 1.62; github is from 0.475. Their license is in icons/LICENSE.
//
//go:embed icons/*.svg
var iconFiles embed.FS

// Sprite is the SVG file with all icons.
var Sprite = newSprite()

// SpritePath is the path at which Sprite is served. It contains a hash of the file.
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

// newSprite makes a symbol of each file, without the attributes that all icons share.
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

// Icon shows a file of icons by its name without .svg. Screen readers skip it, so put a word
// beside it.
func Icon(name string) templ.Component {
	icon, ok := icons[name]
	if !ok {
		panic("kit: no icon " + name)
	}
	return icon
}
