// Package styleguide is the page /kit: the colours, the type and every component of the
// web app in every state, light and dark. It is for those who develop the app.
package styleguide

import (
	"net/http"

	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page, which nobody has to be signed in for. It shows
// the custom properties of the style that are colours and types.
func Routes(colours, types []string) []page.Route {
	show := func(v *page.Visit) (page.Page, error) {
		return page.Page{Title: "Kit", Bare: true, Main: view(v, colours, types)}, nil
	}
	return []page.Route{{Method: http.MethodGet, Path: "/kit", Open: true, Show: show}}
}

// themes are those that the page shows side by side.
var themes = []string{"light", "dark"}

var tones = []kit.Tone{kit.Plain, kit.Accent, kit.Good, kit.Warn, kit.Bad}
