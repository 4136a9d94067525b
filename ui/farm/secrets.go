package farm

import (
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"svc/ui/client"
	"svc/ui/kit"
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
	OffReason string // why the farm is off; "" if it is on
	Name      string // name of the secret that was refused or is to be replaced
	Refused   map[string]string
}

// A secretForm is a refused form.
type secretForm struct {
	name    string
	refused map[string]string // what is wrong, by field
}

// showSecrets lists the names. It asks the service for nothing if the person may not see them.
func showSecrets(v *page.Visit) (page.Page, error) {
	s := secretsData{Name: v.Query("name")}
	if f, ok := v.Result.(secretForm); ok {
		s.Name, s.Refused = f.name, f.refused
	}
	var err error
	if v.MayManage() {
		s.List, err = client.Decode[client.ListFarmSecret](v.API.ListFarmSecrets(v.Context(), nil))
		if r := client.AsRefused(err); r != nil && r.Code == "farm_off" {
			s.OffReason, err = r.Message, nil
		}
	}
	return page.Page{Title: "Job secrets", NavEntry: "farm", Main: secretsView(v, s)}, err
}

// has reports whether there is a secret with a name.
func (s secretsData) has(name string) bool {
	for _, secret := range s.List.Items {
		if secret.Name == name {
			return true
		}
	}
	return false
}

// scopeText says which jobs may use a secret.
func scopeText(s client.SecretScope) string {
	var only []string
	if s.Jobs != nil {
		only = append(only, "named "+strings.Join(*s.Jobs, " or "))
	}
	if s.Repos != nil {
		only = append(only, "of "+kit.Count(int64(len(*s.Repos)), "repository", "repositories"))
	}
	if s.Labels != nil {
		only = append(only, "that require "+strings.Join(*s.Labels, " and "))
	}
	if only == nil {
		return "For every job"
	}
	return "Only for jobs " + strings.Join(only, ", ")
}

// secretName matches the names that the service accepts. Others are refused here, so that
// they never become part of a path.
var secretName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,63}$`)

// setSecret sets a value. After a refusal the form shows the name again, but never the value.
func setSecret(v *page.Visit) (page.Notice, error) {
	name := strings.TrimSpace(v.PostFormValue("name"))
	value := strings.ReplaceAll(v.PostFormValue("value"), "\r\n", "\n") // forms send CRLF
	switch {
	case name == "":
		return page.Notice{}, refuseSecret(v, name, "name", "must not be empty")
	case !secretName.MatchString(name):
		return page.Notice{}, refuseSecret(v, name, "name",
			"must have up to 64 capital letters, digits and underscores, and not start with a digit")
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return page.Notice{}, refuseSecret(v, name, "value", "must be text: UTF-8 without NUL characters")
	}
	err := client.CheckResponse(v.API.SetFarmSecret(v.Context(), name, nil, client.SecretValueBody{Value: &value}))
	if r := client.AsRefused(err); r != nil {
		v.Result = secretForm{name, map[string]string{"name": r.FieldError("name"), "value": r.FieldError("value")}}
	}
	return page.Notice{Text: name + " is set. Jobs that start from now on get this value."}, err
}

// refuseSecret refuses a form without asking the service. text is what is wrong with the field.
func refuseSecret(v *page.Visit, name, field, text string) error {
	v.Result = secretForm{name, map[string]string{field: text}}
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
