// Package kit is the design system: the components that every page is made of. Each is
// shown in every state on the page /kit, which is there in development.
package kit

import (
	"embed"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/a-h/templ"
)

// The icons are those of Lucide 1.62, which icons/LICENSE is about.
//
//go:embed icons/*.svg
var iconFiles embed.FS

var icons = readIcons()

var (
	iconComment = regexp.MustCompile(`(?s)<!--.*?-->\s*`)
	iconHead    = regexp.MustCompile(`(?s)<svg.*?>`)
	iconSpaces  = regexp.MustCompile(`\s*\n\s*`)
)

// readIcons leaves of the files what every icon does not have.
func readIcons() map[string]string {
	list, err := fs.Glob(iconFiles, "icons/*.svg")
	if err != nil {
		panic(err) // the pattern is fixed
	}
	out := map[string]string{}
	for _, name := range list {
		text, err := iconFiles.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		svg := iconComment.ReplaceAllString(string(text), "")
		svg = iconHead.ReplaceAllString(svg, `<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">`)
		out[strings.TrimSuffix(path.Base(name), ".svg")] = iconSpaces.ReplaceAllString(strings.TrimSpace(svg), "")
	}
	return out
}

// Icon shows one of the files in icons by its name without .svg. It says nothing to
// those who hear the page: a word stands beside it.
func Icon(name string) templ.Component {
	svg, ok := icons[name]
	if !ok {
		panic("kit: no icon " + name)
	}
	return templ.Raw(svg)
}
