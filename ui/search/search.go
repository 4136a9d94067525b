// Package search finds members, runs, jobs, service accounts and runners for the palette that ⌘K opens.
package search

import (
	"net/http"

	"svc/ui/client"
	"svc/ui/page"
)

// Routes returns the routes of the search.
func Routes() []page.Route {
	return []page.Route{{Method: http.MethodGet, Path: "/w/{workspace}/search", Show: show}}
}

const (
	perKind    = 5
	maxLetters = 200 // the service's maximum
)

// show returns the options that match a search, none for an empty one.
func show(v *page.Visit) (page.Page, error) {
	q := []rune(v.Query("q"))
	if len(q) == 0 {
		return page.Page{Part: view(v, client.SearchFound{})}, nil
	}
	found, err := client.Decode[client.SearchFound](v.API.Search(v.Context(), &client.SearchParams{
		Q: string(q[:min(len(q), maxLetters)]), Limit: client.Optional(int64(perKind)),
	}))
	return page.Page{Part: view(v, found)}, err
}
