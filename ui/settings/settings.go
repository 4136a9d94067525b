// Package settings is the page of a workspace's name and slug, of who may change them, and of its deletion.
package settings

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"svc/input"
	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	const path = "/w/{workspace}/settings"
	return []page.Route{
		{Method: http.MethodGet, Path: path, Show: show},
		{Method: http.MethodPost, Path: path, Do: rename, Show: show, Back: "settings", Ask: askRename},
		{Method: http.MethodPost, Path: path + "/delete", Do: remove, Show: show, Back: "settings"},
	}
}

// form is the content of the form: the current settings, or the refused ones.
type form struct {
	name, slug       string
	wasName, wasSlug string            // what the fields showed before they were changed
	refused          map[string]string // what is wrong, by field

	deleteName    string // typed to delete the workspace
	deleteRefused string // what is wrong with it
}

func show(v *page.Visit) (page.Page, error) {
	f, ok := v.Result.(form)
	if !ok {
		f = current(v)
	}
	return page.Page{Title: "Settings", NavEntry: "settings", Main: view(v, f)}, nil
}

// current returns a form with the settings in force.
func current(v *page.Visit) form {
	return form{name: v.Workspace.Name, slug: v.Workspace.Slug, wasName: v.Workspace.Name, wasSlug: v.Workspace.Slug}
}

// postedForm returns the posted form.
func postedForm(v *page.Visit) form {
	f := form{name: strings.TrimSpace(v.PostFormValue("name")), slug: strings.TrimSpace(v.PostFormValue("slug"))}
	f.wasName = cmp.Or(v.PostFormValue("was-name"), v.Workspace.Name)
	f.wasSlug = cmp.Or(v.PostFormValue("was-slug"), v.Workspace.Slug)
	return f
}

// rename sends only the fields that the person has changed, so that it does not undo what
// somebody else has changed meanwhile. It redirects to the page's new address.
func rename(v *page.Visit) (page.Notice, error) {
	f := postedForm(v)
	body := client.WorkspaceChangeBody{}
	if f.name != f.wasName {
		body.Name = &f.name
	}
	if f.slug != f.wasSlug {
		body.Slug = &f.slug
	}
	if body.Name == nil && body.Slug == nil {
		return page.Notice{Text: "Nothing has changed."}, nil
	}
	w, err := client.Decode[client.Workspace](v.API.RenameWorkspace(v.Context(), nil, body))
	if r := client.AsRefused(err); r != nil {
		f.refused = map[string]string{"name": r.FieldError("name"), "slug": r.FieldError("slug")}
		if r.Code == "slug_taken" {
			f.refused["slug"] = r.Message
		}
		v.Result = f
		return page.Notice{}, err
	}
	return page.Notice{Text: "Settings saved.", To: page.Path(w.Slug, "settings")}, err
}

// inputPattern returns the pattern of slugs for the browser. It returns none for a slug from
// before today's rules, because the browser would then not submit the form at all.
func inputPattern(slug string) templ.Attributes {
	if !input.Slug.Fits(slug) {
		return nil
	}
	return templ.Attributes{"pattern": `[a-z][a-z0-9\-]{1,38}[a-z0-9]`}
}

// askRename asks only about a new slug, which breaks links with the old one. It asks nothing
// about an invalid slug, which the service refuses.
func askRename(v *page.Visit) (page.Question, error) {
	f := postedForm(v)
	slug := f.slug
	if slug == f.wasSlug || !input.Slug.Fits(slug) || !v.IsOwner() {
		return page.Question{}, nil
	}
	return page.Question{
		Title: "Change the slug to " + slug + "?",
		Text: "Links to pages of /w/" + v.Workspace.Slug + " stop working, scripts have to name the new slug, " +
			"and another workspace may take the old one at once.",
		Yes: "Change it to " + slug, No: "Keep " + v.Workspace.Slug,
	}, nil
}

// remove deletes the workspace. What its Owners can do until when is on the page of all workspaces.
func remove(v *page.Visit) (page.Notice, error) {
	f := current(v)
	f.deleteName = strings.TrimSpace(v.PostFormValue("confirm-name"))
	refuse := func(why string, err error) (page.Notice, error) {
		f.deleteRefused = why
		v.Result = f
		return page.Notice{}, page.InlineError{Err: err}
	}
	if f.deleteName != v.Workspace.Name {
		why := "must be " + v.Workspace.Name + ", exactly as it is written"
		return refuse(why, &client.Refused{Status: http.StatusUnprocessableEntity, Message: "The name " + why + "."})
	}
	body := client.WorkspaceDeletionBody{Name: f.deleteName}
	deleted, err := client.Decode[client.DeletedWorkspace](v.API.DeleteWorkspace(v.Context(), nil, body))
	if r := client.AsRefused(err); r != nil && r.Code == "workspace_personal" {
		return refuse("is that of your own workspace, which holds your account and stays", err)
	}
	return page.Notice{
		Text: v.Workspace.Name + " is deleted. An Owner can restore it until " + kit.Day(deleted.PurgeAt) + ".", To: "/w",
	}, err
}
