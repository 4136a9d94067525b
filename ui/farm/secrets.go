package farm

import (
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"svc/ui/client"
	"svc/ui/page"
)

// maxSecretForm is how many bytes a form with a value of 32 KiB may have. A form writes most bytes
// as three at most, and the end of a line as six: %0D%0A.
const maxSecretForm = 256 << 10

// secretRoutes are those of the values that jobs receive by name.
func secretRoutes() []page.Route {
	const path = "/w/{workspace}/farm/secrets"
	return []page.Route{
		{Method: http.MethodGet, Path: path, Show: showSecrets},
		{Method: http.MethodPost, Path: path, Do: setSecret, Show: showSecrets, Back: "farm/secrets", Body: maxSecretForm},
		{Method: http.MethodPost, Path: path + "/{name}/remove", Do: removeSecret, Show: showSecrets, Back: "farm/secrets", Ask: askRemoveSecret},
	}
}

// secrets is what the page of job secrets shows. No page ever has a value.
type secrets struct {
	List    client.ListFarmSecret
	Off     string // why there is no farm; "" if there is one
	Name    string // of the secret that was refused or is to be replaced
	Refused map[string]string
}

// A secretForm is what was refused of a form.
type secretForm struct {
	name    string
	refused map[string]string // by field: what is wrong with it
}

// showSecrets lists the names. Whoever may not see them is told so, and nothing is asked.
func showSecrets(v *page.Visit) (page.Page, error) {
	s := secrets{Name: v.Query("name")}
	if f, ok := v.Done.(secretForm); ok {
		s.Name, s.Refused = f.name, f.refused
	}
	var err error
	if v.MayManage() {
		s.List, err = client.Read[client.ListFarmSecret](v.API.ListFarmSecrets(v.Context(), nil))
		if r := client.AsRefused(err); r != nil && r.Code == "farm_off" {
			s.Off, err = r.Message, nil
		}
	}
	return page.Page{Title: "Job secrets", NavEntry: "farm", Main: secretsView(v, s)}, err
}

// has reports whether there is a secret of a name.
func (s secrets) has(name string) bool {
	for _, one := range s.List.Items {
		if one.Name == name {
			return true
		}
	}
	return false
}

// secretName is the service's form of a name. What has another one is refused here, so that it
// never becomes part of a path.
var secretName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,63}$`)

// setSecret sets a value. A refusal keeps the name; the value never comes back to the browser.
func setSecret(v *page.Visit) (page.Notice, error) {
	name := strings.TrimSpace(v.PostFormValue("name"))
	value := strings.ReplaceAll(v.PostFormValue("value"), "\r\n", "\n") // as it was typed or pasted
	switch {
	case name == "":
		return page.Notice{}, refuseSecret(v, name, "name", "must not be empty")
	case !secretName.MatchString(name):
		return page.Notice{}, refuseSecret(v, name, "name",
			"must have up to 64 capital letters, digits and underscores, and not start with a digit")
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return page.Notice{}, refuseSecret(v, name, "value", "must be text: UTF-8 without NUL characters")
	}
	err := client.Done(v.API.SetFarmSecret(v.Context(), name, nil, client.SecretValueBody{Value: value}))
	if r := client.AsRefused(err); r != nil {
		v.Done = secretForm{name, map[string]string{"name": r.Field("name"), "value": r.Field("value")}}
	}
	return page.Notice{Text: name + " is set. Jobs that start from now on get this value."}, err
}

// refuseSecret refuses a form without asking the service: text is what is wrong with a field.
func refuseSecret(v *page.Visit, name, field, text string) error {
	v.Done = secretForm{name, map[string]string{field: text}}
	return page.InlineError{Err: &client.Refused{Status: http.StatusConflict, Message: "The " + field + " " + text + "."}}
}

func removeSecret(v *page.Visit) (page.Notice, error) {
	name := v.PathValue("name")
	if !secretName.MatchString(name) {
		return page.Notice{}, &client.Refused{Status: http.StatusNotFound, Message: "There is no secret with this name."}
	}
	err := client.Done(v.API.RemoveFarmSecret(v.Context(), name, nil))
	return page.Notice{Text: name + " is removed."}, err
}

func secretQuestion(name string) page.Question {
	return page.Question{
		Title: "Remove " + name + "?",
		Text:  "Jobs that name it can no longer run. Its value can't be read back. To confirm, type " + name + ".",
		Word:  name,
	}
}

// askRemoveSecret asks nothing about what cannot be a name: removeSecret refuses it.
func askRemoveSecret(v *page.Visit) (page.Question, error) {
	if !secretName.MatchString(v.PathValue("name")) {
		return page.Question{}, nil
	}
	return secretQuestion(v.PathValue("name")), nil
}
