// Package serviceaccounts is the page of service accounts, the identities of scripts. It shows
// a new token once. The page of members contains its card as well.
package serviceaccounts

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

// Routes returns the routes of the page. A POST that creates a token is answered with the page,
// because a redirect would have to carry the token.
func Routes() []page.Route {
	const path = "/w/{workspace}/service-accounts"
	return []page.Route{
		{Method: http.MethodGet, Path: path, Show: show},
		{Method: http.MethodPost, Path: path, Do: create, Show: show, ShowsSecret: true},
		{
			Method: http.MethodPost, Path: path + "/{id}/rotate", Do: rotate, Show: show, ShowsSecret: true,
			Back: "service-accounts", Ask: askAboutAccount(rotateQuestion),
		},
		{
			Method: http.MethodPost, Path: path + "/{id}/revoke", Do: revoke, Show: show,
			Back: "service-accounts", Ask: askAboutAccount(revokeQuestion),
		},
	}
}

const perPage = 50

// pageData is the content of the page.
type pageData struct {
	List     client.ListServiceAccount
	newToken *client.TokenAnswerBody // with the token that this request created, or nil
	form     form
}

// A form is a refused request to create an account, with the reasons.
type form struct {
	name    string
	scopes  []string
	refused string            // the reason, "" if a field has it, or there is none
	fields  map[string]string // what is wrong, by field
}

func (f form) hasScope(scope string) bool { return slices.Contains(f.scopes, scope) }

func show(v *page.Visit) (page.Page, error) {
	d := pageData{form: form{scopes: []string{"api.read"}}}
	switch done := v.Result.(type) {
	case *client.TokenAnswerBody:
		d.newToken = done
	case form:
		d.form = done
	}
	shown := page.Page{Title: "Service accounts", NavEntry: "members"}
	if v.MayManage() {
		err := v.Load(func(ctx context.Context) (err error) {
			d.List, err = client.Decode[client.ListServiceAccount](v.API.ListServiceAccounts(ctx, &client.ListServiceAccountsParams{
				Limit: client.Optional(int64(perPage)), Offset: client.Optional(v.QueryNumber("offset")),
			}))
			return err
		})
		if err != nil {
			return page.Page{}, err
		}
	}
	shown.Main = view(v, d)
	return shown, nil
}

func create(v *page.Visit) (page.Notice, error) {
	f := form{name: strings.TrimSpace(v.PostFormValue("name"))}
	f.scopes = v.PostForm["scope"]
	body := client.NewAccountBody{Name: f.name, Scopes: []client.NewAccountBodyScopes{}}
	for _, scope := range f.scopes {
		body.Scopes = append(body.Scopes, client.NewAccountBodyScopes(scope))
	}
	newToken, err := client.Decode[client.TokenAnswerBody](v.API.CreateServiceAccount(v.Context(),
		&client.CreateServiceAccountParams{IdempotencyKey: v.IdempotencyKey()}, body))
	if err != nil {
		if r := client.AsRefused(err); r != nil {
			if f.fields = r.FieldErrors("name", "scopes"); r.Code == "service_account_name_taken" {
				f.fields["name"] = r.Message
			}
			if len(f.fields) == 0 {
				f.refused = page.Sentence(r)
			}
		}
		v.Result = f
		return page.Notice{}, page.InlineError{Err: err}
	}
	v.Result = &newToken
	return page.Notice{Text: "Service account created."}, nil
}

func rotate(v *page.Visit) (page.Notice, error) {
	newToken, err := client.Decode[client.TokenAnswerBody](v.API.RotateServiceAccount(v.Context(), v.PathValue("id"),
		&client.RotateServiceAccountParams{IdempotencyKey: v.IdempotencyKey()}))
	if err != nil {
		return page.Notice{}, err
	}
	v.Result = &newToken
	return page.Notice{Text: "Rotated. The old token has stopped working."}, nil
}

func revoke(v *page.Visit) (page.Notice, error) {
	a, err := client.Decode[client.ServiceAccount](v.API.RevokeServiceAccount(v.Context(), v.PathValue("id"), nil))
	return page.Notice{Text: a.Name + " is revoked. Its token has stopped working."}, err
}

func rotateQuestion(a client.ServiceAccount) page.Question {
	return page.Question{
		Title: "Rotate the token of " + a.Name + "?",
		Text:  "The old token stops working at once. Anything that uses it fails until you update it.",
		Yes:   "Rotate the token", No: "Keep the old token",
	}
}

func revokeQuestion(a client.ServiceAccount) page.Question {
	return page.Question{
		Title: "Revoke " + a.Name + "?",
		Text:  "Its token stops working at once and for good, and no other account can have its name. Type " + a.Name + " to confirm.",
		Yes:   "Revoke " + a.Name, No: "Keep it", Word: a.Name,
	}
}

// askAboutAccount returns a function that asks a question about the account in the path. It
// asks nothing if there is no such account: the service refuses the request.
func askAboutAccount(question func(client.ServiceAccount) page.Question) func(*page.Visit) (page.Question, error) {
	return func(v *page.Visit) (page.Question, error) {
		a, ok, err := page.Find(func(offset int64) ([]client.ServiceAccount, int64, error) {
			list, err := client.Decode[client.ListServiceAccount](v.API.ListServiceAccounts(v.Context(), &client.ListServiceAccountsParams{
				Limit: client.Optional(int64(perPage)), Offset: client.Optional(offset),
			}))
			return list.Items, list.Total, err
		}, func(a client.ServiceAccount) bool { return a.Id == v.PathValue("id") })
		if err != nil || !ok {
			return page.Question{}, err
		}
		return question(a), nil
	}
}

// tryCommand returns a shell command that uses a token. It prompts for the token to keep it out
// of the shell's history.
func tryCommand(v *page.Visit, newToken *client.TokenAnswerBody) string {
	prompt := `read -rs SVC_TOKEN && curl -H "Authorization: Bearer $SVC_TOKEN" `
	if slices.Contains(newToken.Account.Scopes, "api.read") {
		return prompt + "'" + v.PublicAPI + "/api/v1/runs?status=active'"
	}
	return prompt + `--json '{"idempotencyKey":"try","name":"try","steps":[{"name":"try","run":"true"}]}' ` + v.PublicAPI +
		"/api/v1/farm/jobs"
}

// A scope is a permission of a token, described in plain words.
type scope struct{ name, title, text string }

var scopes = []scope{
	{"api.read", "Read what a Viewer can read", "Runs, inbox, insights, dashboard and build farm. No members, audit log or settings."},
	{"farm.submit", "Submit and cancel build-farm jobs", "The only change a token can make."},
}

const managersOnly = "Only an Owner or Maintainer can manage service accounts."
