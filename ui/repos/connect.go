package repos

import (
	"net/http"
	"net/url"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

// connectForm is the content of the form that connects a repository. It never has a credential.
type connectForm struct {
	url, name, kind string
	refused         string            // the reason, or ""
	fields          map[string]string // what is wrong, by field
	checks          []client.RepoCheck
}

func showConnect(v *page.Visit) (page.Page, error) {
	f, ok := v.Result.(connectForm)
	if !ok {
		f = connectForm{url: v.Query("url"), name: v.Query("name"), kind: v.Query("kind")}
	}
	return page.Page{Title: "Connect a repository", NavEntry: "settings", Main: connectView(v, f)}, nil
}

// connect connects a repository if everything that runs need works. After a refusal the form shows what was
// found, and keeps its values except the credentials.
func connect(v *page.Visit) (page.Notice, error) {
	f := connectForm{
		url: strings.TrimSpace(v.PostFormValue("url")), name: strings.TrimSpace(v.PostFormValue("name")), kind: v.PostFormValue("kind"),
	}
	body := client.NewRepoBody{
		Url: f.url, Name: client.Optional(f.name), Credential: client.Optional(strings.TrimSpace(v.PostFormValue("credential"))),
		ReadCredential: client.Optional(strings.TrimSpace(v.PostFormValue("read-credential"))),
	}
	if f.kind != "" {
		body.Kind = new(client.NewRepoBodyKind(f.kind))
	}
	repo, err := client.Decode[client.RepoDetail](v.API.ConnectRepo(v.Context(), nil, body))
	if r := refusal(err); r != nil {
		f.refused, f.checks = page.Sentence(r), findingsOf(r)
		f.fields = r.FieldErrors("url", "name", "credential", "readCredential")
		v.Result = f
		return page.Notice{}, page.InlineError{Err: r}
	}
	return page.Notice{Text: repo.Name + " is connected. Say which jobs a commit has to pass.", To: repoPath(v, repo.Id)}, err
}

// refusal returns the refusal that a form shows, nil if the error is none or has a page of its own. That the engine
// or the code host is away belongs to the form: what was typed stays, and can be sent again.
func refusal(err error) *client.Refused {
	r := client.AsRefused(err)
	if r == nil {
		return nil
	}
	shown := *r
	switch r.Code {
	case "engine_unavailable":
		shown.Status, shown.Message = http.StatusConflict, r.Message+" Nothing was changed. Try again in a moment."
	case "code_host_unavailable":
		shown.Status = http.StatusConflict
	case "repo_check_failed":
		shown.Status, shown.Message = http.StatusConflict, "Runs could not work on this repository, so nothing was saved. See what is lacking."
	}
	if shown.Status == http.StatusUnauthorized || shown.Status >= http.StatusInternalServerError {
		return nil
	}
	return &shown
}

// findingsOf returns what a refused check found.
func findingsOf(r *client.Refused) (list []client.RepoCheck) {
	r.Detail("checks", &list)
	return list
}

// connectQuery returns the query of the form's address that fills its fields.
func connectQuery(address, name, kind string) string {
	return url.Values{"url": {address}, "name": {name}, "kind": {kind}}.Encode()
}
