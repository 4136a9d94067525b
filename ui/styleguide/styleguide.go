// Package styleguide is the page /kit for developers of the web app: colours, typography and
// every component in every state, light and dark.
package styleguide

import (
	"net/http"

	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page, which requires no sign-in. colours and types are names
// of CSS custom properties. states is the address of the style sheet that shows components as if
// they were hovered or focused.
func Routes(states string, colours, types []string) []page.Route {
	show := func(v *page.Visit) (page.Page, error) {
		return page.Page{Title: "Kit", Bare: true, Main: view(v, states, colours, types)}, nil
	}
	return []page.Route{{Method: http.MethodGet, Path: "/kit", Public: true, Show: show}}
}

// themes are shown side by side.
var themes = []string{"light", "dark"}

// A state is a state of a component, with the class that shows it.
type state struct{ name, class string }

var states = []state{{"At rest", ""}, {"Hover", "hovered"}, {"Focus", "focused"}}

var tones = []kit.Tone{kit.Plain, kit.Accent, kit.Good, kit.Warn, kit.Bad}
