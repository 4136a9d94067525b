// Package workspaces contains the pages that choose and create a workspace.
package workspaces

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	return []page.Route{
		{Method: http.MethodGet, Path: "/w", Show: show},
		{Method: http.MethodGet, Path: "/workspace-menu", Show: menu},
		{Method: http.MethodGet, Path: newPath, Show: showNew},
		{Method: http.MethodPost, Path: newPath, Do: create, Show: showNew, Back: "/w"},
		{Method: http.MethodPost, Path: restorePath, Do: restore, Show: show, Back: "/w"},
		{Method: http.MethodGet, Path: "/w/{workspace}", Show: redirectToDashboard},
	}
}

// These and the menu's path are not below /w, where every name can be a workspace's slug.
const newPath, restorePath = "/new-workspace", "/restore-workspace"

func show(v *page.Visit) (page.Page, error) {
	var list []client.OwnWorkspace
	var invitations []client.OwnInvitation
	var deleted []client.OwnDeletedWorkspace
	err := v.Load(func(ctx context.Context) (err error) {
		list, deleted, err = v.API.AllOwnWorkspaces(ctx)
		sortByLastUse(list)
		return err
	}, func(ctx context.Context) (err error) {
		invitations, err = v.API.OwnInvitations(ctx)
		return err
	})
	if err != nil {
		return page.Page{}, err
	}
	return page.Page{Title: "Workspaces", Main: view(v, list, deleted, countPending(invitations))}, nil
}

// sortByLastUse sorts workspaces by the person's last use. Of those without any, the last joined is the first, so that the
// personal one is the last.
func sortByLastUse(list []client.OwnWorkspace) {
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b client.OwnWorkspace) int {
		switch {
		case a.LastActiveAt == nil && b.LastActiveAt == nil:
			return 0
		case a.LastActiveAt == nil:
			return 1
		case b.LastActiveAt == nil:
			return -1
		}
		return b.LastActiveAt.Compare(*a.LastActiveAt)
	})
}

// form is the content of the form for a new workspace.
type form struct {
	name, slug string
	refused    map[string]string // what is wrong, by field
}

func showNew(v *page.Visit) (page.Page, error) {
	f, _ := v.Result.(form)
	return page.Page{Title: "Create a workspace", Main: newView(f)}, nil
}

// create creates a workspace and redirects to it. A refusal is shown beside its field. Empty
// fields are refused here, because the service's messages about them are for programs.
func create(v *page.Visit) (page.Notice, error) {
	f := form{name: strings.TrimSpace(v.PostFormValue("name")), slug: strings.TrimSpace(v.PostFormValue("slug"))}
	for _, field := range []struct{ name, value string }{{"name", f.name}, {"slug", f.slug}} {
		if field.value == "" {
			f.refused = map[string]string{field.name: "must not be empty"}
			v.Result = f
			return page.Notice{}, page.InlineError{Err: &client.Refused{
				Status: http.StatusConflict, Message: "The " + field.name + " must not be empty.",
			}}
		}
	}
	created, err := v.API.CreateWorkspace(v.Context(), f.name, f.slug)
	if r := client.AsRefused(err); r != nil {
		if r.Code == "ORGANIZATION_ALREADY_EXISTS" {
			r.Message = "Another workspace has this slug."
			r.Details = map[string]json.RawMessage{"slug": json.RawMessage(`["Another workspace has this slug."]`)}
		}
		f.refused = map[string]string{"name": r.FieldError("name"), "slug": r.FieldError("slug")}
		v.Result = f
	}
	return page.Notice{Text: created.Name + " is ready. The first steps are below.", To: page.Path(created.Slug, "dashboard")}, err
}

func countPending(list []client.OwnInvitation) (n int) {
	for _, i := range list {
		if i.Status == "pending" {
			n++
		}
	}
	return n
}

// menu is the menu that switches workspaces.
func menu(v *page.Visit) (page.Page, error) {
	list, err := v.API.OwnWorkspaces(v.Context())
	sortByLastUse(list)
	return page.Page{Part: menuView(list, currentSlug(v))}, err
}

// currentSlug returns the slug of the workspace that the browser shows, or "".
func currentSlug(v *page.Visit) string {
	u, err := url.Parse(v.Header.Get("HX-Current-URL"))
	if err != nil {
		return ""
	}
	slug, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/w/"), "/")
	return slug
}

func redirectToDashboard(v *page.Visit) (page.Page, error) {
	return page.Page{}, page.Redirect(v.Path("dashboard"))
}

// restore restores a deleted workspace of the person.
func restore(v *page.Visit) (page.Notice, error) {
	id := v.PostFormValue("workspace")
	w, err := client.Decode[client.Workspace](v.API.RestoreWorkspace(v.Context(), &client.RestoreWorkspaceParams{XSvcTenant: &id}))
	if r := client.AsRefused(err); r != nil && r.Status == http.StatusNotFound {
		r.Message = "This workspace can no longer be restored, or it has been already."
	}
	return page.Notice{Text: w.Name + " is restored. Runs and jobs that were cancelled stay so.", To: page.Path(w.Slug, "dashboard")}, err
}

// roleOf returns the person's role as pages show it.
func roleOf(p client.OwnWorkspace) string {
	if p.Role == "member" {
		return kit.Role(p.Role)
	}
	return kit.Words(p.Role)
}
