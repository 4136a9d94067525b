package farm

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"svc/ui/client"
	"svc/ui/page"
)

// maxSecretForm is the maximal size in bytes of a form with a value of 32 KiB. Form encoding
// turns a byte into at most three, and a line end into six: %0D%0A.
const maxSecretForm = 256 << 10

// secretRoutes returns the routes of job secrets, the values that jobs receive by name.
func secretRoutes() []page.Route {
	const path = "/w/{workspace}/farm/secrets"
	return []page.Route{
		{Method: http.MethodGet, Path: path, Show: showSecrets},
		{Method: http.MethodPost, Path: path, Do: setSecret, Show: showSecrets, Back: "farm/secrets", Body: maxSecretForm},
		{Method: http.MethodPost, Path: path + "/{name}/remove", Do: removeSecret, Show: showSecrets, Back: "farm/secrets", Ask: askRemoveSecret},
	}
}

// secretsData is the content of the page of job secrets. No page ever contains a value.
type secretsData struct {
	List      client.ListFarmSecret
	Repos     []client.RepoRuns // also those that jobs and runs named without a connection
	OffReason string            // why the farm is off; "" if it is on
	Form      secretForm
}

// showSecrets lists the names. It asks the service for nothing if the person may not see them.
func showSecrets(v *page.Visit) (page.Page, error) {
	var s secretsData
	var err error
	if v.MayManage() {
		err = v.Load(func(ctx context.Context) (err error) {
			s.List, err = client.Decode[client.ListFarmSecret](v.API.ListFarmSecrets(ctx, nil))
			return err
		}, func(ctx context.Context) error {
			list, err := client.Decode[client.RepoList](v.API.ListRepos(ctx, nil))
			s.Repos = list.Items
			return err
		})
		if r := client.AsRefused(err); r != nil && r.Code == "farm_off" {
			s.OffReason, err = r.Message, nil
		}
	}
	if f, ok := v.Result.(secretForm); ok {
		s.Form = f
	} else {
		s.Form = s.formOf(v.Query("name"))
	}
	return page.Page{Title: "Job secrets", NavEntry: "farm", Main: secretsView(v, s)}, err
}

// secretName matches the names that the service accepts. Others are refused here, so that
// they never become part of a path.
var secretName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,63}$`)

// setSecret sets a value, which jobs may use it, or both. After a refusal the form shows all but the value again.
func setSecret(v *page.Visit) (page.Notice, error) {
	f := postedSecret(v)
	value := strings.ReplaceAll(v.PostFormValue("value"), "\r\n", "\n") // forms send CRLF
	switch {
	case f.name == "":
		return page.Notice{}, f.refuse(v, "name", "must not be empty")
	case !secretName.MatchString(f.name):
		return page.Notice{}, f.refuse(v, "name", "must have up to 64 capital letters, digits and underscores, and not start with a digit")
	case value == "" && !f.isChange():
		return page.Notice{}, f.refuse(v, "value", "must not be empty")
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return page.Notice{}, f.refuse(v, "value", "must be text: UTF-8 without NUL characters")
	}
	err := client.CheckResponse(v.API.SetFarmSecret(v.Context(), f.name, nil, client.SecretValueBody{
		Value: client.Optional(value), Scope: f.scope(),
	}))
	if r := client.AsRefused(err); r != nil {
		f.refused = r.FieldErrors("name", "value", "scope.jobs", "scope.repos", "scope.labels")
		v.Result = f
	}
	if value == "" {
		return page.Notice{Text: f.name + " is changed. Its value stays."}, err
	}
	return page.Notice{Text: f.name + " is set. Jobs that start from now on get this value."}, err
}

// refuse refuses a form without asking the service. text is what is wrong with the field.
func (f secretForm) refuse(v *page.Visit, field, text string) error {
	f.refused = map[string]string{field: text}
	v.Result = f
	return page.InlineError{Err: &client.Refused{Status: http.StatusConflict, Message: "The " + field + " " + text + "."}}
}

func removeSecret(v *page.Visit) (page.Notice, error) {
	name := v.PathValue("name")
	if !secretName.MatchString(name) {
		return page.Notice{}, &client.Refused{Status: http.StatusNotFound, Message: "There is no secret with this name."}
	}
	err := client.CheckResponse(v.API.RemoveFarmSecret(v.Context(), name, nil))
	return page.Notice{Text: name + " is removed."}, err
}

func secretQuestion(name string) page.Question {
	return page.Question{
		Title: "Remove " + name + "?",
		Text:  "Jobs that name it can no longer run. Its value can't be read back. To confirm, type " + name + ".",
		Yes:   "Remove " + name, No: "Keep it", Word: name,
	}
}

// askRemoveSecret asks for confirmation, unless the name is invalid: removeSecret refuses it.
func askRemoveSecret(v *page.Visit) (page.Question, error) {
	if !secretName.MatchString(v.PathValue("name")) {
		return page.Question{}, nil
	}
	return secretQuestion(v.PathValue("name")), nil
}
