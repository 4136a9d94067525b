package repos

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

// repoData is the content of the page of a repository.
type repoData struct {
	client.RepoDetail
	Runs       client.RepoRuns // its numbers of runs
	Form       settingsForm
	Credential credentialForm
	NewHook    *client.NewHook // what this request has set up, or nil
}

// credentialForm is a refused form that replaces a credential. It never has the credential.
type credentialForm struct {
	which, refused string
	checks         []client.RepoCheck
}

func showRepo(v *page.Visit) (page.Page, error) {
	var d repoData
	var list client.RepoList
	unconnected := false
	err := v.Load(func(ctx context.Context) (err error) {
		d.RepoDetail, err = client.Decode[client.RepoDetail](v.API.GetRepo(ctx, v.PathValue("id"), nil))
		if r := client.AsRefused(err); r != nil && r.Status == http.StatusNotFound {
			unconnected, err = true, nil
		}
		return err
	}, func(ctx context.Context) (err error) {
		list, err = client.Decode[client.RepoList](v.API.ListRepos(ctx, nil))
		return err
	})
	if err != nil {
		return page.Page{}, err
	}
	if i := slices.IndexFunc(list.Items, func(r client.RepoRuns) bool { return r.Id == v.PathValue("id") }); i >= 0 {
		d.Runs = list.Items[i]
	}
	shown := page.Page{Title: d.Name, NavEntry: "settings"}
	switch {
	case unconnected && d.Runs.Id == "":
		return page.Page{}, &client.Refused{Status: http.StatusNotFound, Code: "repo_not_found", Message: "There is no such repository."}
	case unconnected:
		shown.Title, shown.Main = d.Runs.Name, unconnectedView(v, d.Runs)
		return shown, nil
	}
	d.Form = newSettingsForm(d.Settings)
	switch result := v.Result.(type) {
	case settingsForm:
		d.Form = result
	case credentialForm:
		d.Credential = result
	case *client.NewHook:
		d.NewHook = result
	}
	shown.Main = repoView(v, d)
	return shown, nil
}

// isConnected reports whether runs may work on the repository, now or when it is resumed.
func (d repoData) isConnected() bool { return d.Status != client.RepoDetailStatusDisconnected }

func check(v *page.Visit) (page.Notice, error) {
	repo, err := client.Decode[client.RepoDetail](v.API.CheckRepo(v.Context(), v.PathValue("id"), nil))
	if r := refusal(err); r != nil {
		return page.Notice{}, r
	}
	text := "Checked. Everything that runs need works."
	if repo.Check != nil && !repo.Check.Ok {
		text = "Checked. Something is lacking."
	}
	return page.Notice{Text: text}, err
}

// replaceCredential replaces a credential if everything works with the new one, or takes away that of build machines.
func replaceCredential(v *page.Visit) (page.Notice, error) {
	f := credentialForm{which: v.PostFormValue("which")}
	token := strings.TrimSpace(v.PostFormValue("credential"))
	remove := v.PostFormValue("removal") != ""
	var err error
	if token == "" && !remove {
		err = &client.Refused{Status: http.StatusConflict, Message: "Paste the new credential."}
	} else {
		err = client.CheckResponse(v.API.ReplaceRepoCredential(v.Context(), v.PathValue("id"), nil, client.NewCredentialOfBody{
			Which: client.NewCredentialOfBodyWhich(f.which), Credential: token,
		}))
	}
	if r := refusal(err); r != nil {
		f.refused, f.checks = page.Sentence(r), findingsOf(r)
		v.Result = f
		return page.Notice{}, page.InlineError{Err: r}
	}
	if remove {
		return page.Notice{Text: "Removed. Build machines clone without a credential."}, err
	}
	return page.Notice{Text: "Replaced. The old credential is deleted."}, err
}

func removeCredentialQuestion() page.Question {
	return page.Question{
		Title: "Remove the credential of build machines?", Text: "Jobs then clone as anybody does. It is tried before.",
		Yes: "Remove the credential", No: "Keep the credential",
		Field: "removal", Value: "yes",
	}
}

// askRemoveCredential asks only about the form that removes a credential.
func askRemoveCredential(*page.Visit) (page.Question, error) { return removeCredentialQuestion(), nil }

func pause(v *page.Visit) (page.Notice, error) {
	err := client.CheckResponse(v.API.PauseRepo(v.Context(), v.PathValue("id"), nil,
		client.RepoPauseBody{Reason: strings.TrimSpace(v.PostFormValue("reason"))}))
	return page.Notice{Text: "Paused. No run begins, and active ones do not go on."}, err
}

func resume(v *page.Visit) (page.Notice, error) {
	err := client.CheckResponse(v.API.ResumeRepo(v.Context(), v.PathValue("id"), nil))
	return page.Notice{Text: "Resumed. Runs go on."}, err
}

func disconnect(v *page.Visit) (page.Notice, error) {
	repo, err := client.Decode[client.RepoDetail](v.API.GetRepo(v.Context(), v.PathValue("id"), nil))
	if err != nil {
		return page.Notice{}, err
	}
	err = client.CheckResponse(v.API.DisconnectRepo(v.Context(), repo.Id, &client.DisconnectRepoParams{Name: repo.Name}))
	return page.Notice{Text: repo.Name + " is disconnected. Its credentials are deleted.", To: v.Path("settings", "repositories")}, err
}

func disconnectQuestion(name string) page.Question {
	return page.Question{
		Title: "Disconnect " + name + "?",
		Text:  "No run works on it any more, and its credentials are deleted. Its runs stay listed. To confirm, type " + name + ".",
		Yes:   "Disconnect " + name, No: "Keep it connected", Word: name,
	}
}

// askDisconnect asks nothing about a repository that is not connected, which the service refuses.
func askDisconnect(v *page.Visit) (page.Question, error) {
	repo, err := client.Decode[client.RepoDetail](v.API.GetRepo(v.Context(), v.PathValue("id"), nil))
	if r := client.AsRefused(err); r != nil && r.Status == http.StatusNotFound {
		return page.Question{}, nil
	}
	if err != nil || !v.MayManage() {
		return page.Question{}, err
	}
	return disconnectQuestion(repo.Name), nil
}

// pauseHint says what ends a pause by the service, "" if a person paused it.
func pauseHint(p client.Pause) string {
	if p.Code == nil {
		return ""
	}
	switch string(*p.Code) {
	case "credential":
		return "Replace the credential below, or resume once the code host accepts it again."
	case "identity":
		return "Another repository has its name now. Check again, or disconnect it."
	case "check":
		return "Mend what is lacking, check again, and resume it."
	}
	return "Resume it once the cause is mended."
}
