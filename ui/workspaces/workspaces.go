// Package workspaces is where a person chooses a workspace.
package workspaces

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/w", Show: show},
		{Method: http.MethodGet, Path: "/w/menu", Show: menu},
		{Method: http.MethodGet, Path: "/w/{workspace}", Show: home},
	}
}

func show(v *page.Visit) (page.Page, error) {
	var places []client.Place
	var invitations []client.OwnInvitation
	err := v.Load(func(ctx context.Context) (err error) {
		places, err = v.API.Places(ctx)
		return err
	}, func(ctx context.Context) (err error) {
		invitations, err = v.API.OwnInvitations(ctx)
		return err
	})
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{Title: "Workspaces", Main: view(v, places, waiting(invitations))}, nil
}

func waiting(list []client.OwnInvitation) (n int) {
	for _, i := range list {
		if i.Status == "pending" {
			n++
		}
	}
	return n
}

// menu is what the chip of the workspace opens.
func menu(v *page.Visit) (page.Page, error) {
	places, err := v.API.Places(v.Context())
	return page.Page{Part: menuView(places, current(v))}, err
}

// current is the slug of the workspace whose page asks, "" if none does.
func current(v *page.Visit) string {
	u, err := url.Parse(v.Header.Get("HX-Current-URL"))
	if err != nil {
		return ""
	}
	slug, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/w/"), "/")
	return slug
}

func home(v *page.Visit) (page.Page, error) { return page.Page{}, page.Redirect(v.Path("dashboard")) }
