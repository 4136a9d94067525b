package codehost

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"svc/engine/client"
	"svc/events"
)

// A forge is what hosts with issues and pull requests do each in their way. Pages begin with 1, and a next page of 0
// means that there is none. Its errors are those of its client.
type forge interface {
	// repository returns what the forge says of the repository, and what of that hinders runs.
	repository(ctx context.Context) (Repository, traits, error)
	// rules returns what the rules of a branch, if they can be read, mean for runs.
	rules(ctx context.Context, branch, web, landing, method string) []client.Check

	issues(ctx context.Context, label string, page int) (list []issue, next int, err error) // open ones, newest first
	issue(ctx context.Context, number int) (issue, error)
	comments(ctx context.Context, issue, page int) (list []comment, next int, err error)
	comment(ctx context.Context, issue int, body string) error
	editComment(ctx context.Context, id int64, body string) error

	// pulls returns pull requests in all states, among them those of the branch.
	pulls(ctx context.Context, branch string, page int) (list []pull, next int, err error)
	closedPulls(ctx context.Context) ([]pull, error) // the last ones, newest first
	pull(ctx context.Context, number int) (pull, error)
	openPull(ctx context.Context, in client.ProposeInput, body string) (pull, error)
	closePull(ctx context.Context, number int) error
	closedBy(ctx context.Context, number int) string // "" if the forge does not say
	merge(ctx context.Context, in client.MergeInput, method string) error

	status(ctx context.Context, commit string) (state, text string, err error) // the last one of statusContext
	setStatus(ctx context.Context, commit, state, text string) error

	hooks(ctx context.Context) ([]hookAt, error)
	setHook(ctx context.Context, id int64, url, secret string) error // id 0 makes one
	removeHook(ctx context.Context, id int64) error

	labelled(ctx context.Context, issue int, label string) (labelling, error) // the last time; zero if it is not told
	account(ctx context.Context) (string, error)                              // of the credential
	permission(ctx context.Context, login string) (string, error)             // such as write
}

// hosted is a repository at a forge. It has what all forges have in common.
type hosted struct {
	forge
	r   client.Repository
	api string // address of the forge's interface
}

var namePattern = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9._-]*)/([A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*)$`)

// newHosted connects to a forge. usual is the address of its interface if the repository has none.
func newHosted(
	r client.Repository, network Network, usual string, connect func(owner, name string, api *url.URL, c *http.Client) (forge, error),
) (Host, error) {
	name := namePattern.FindStringSubmatch(r.Name)
	if name == nil {
		return nil, &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The repository's name is not of the form owner/name."}
	}
	api, err := url.Parse(strings.TrimSuffix(cmp.Or(r.API, usual), "/"))
	if err != nil || api.Host == "" || api.User != nil || api.Scheme != "https" && (api.Scheme != "http" || !network.AllowLocal) {
		return nil, &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The address of the code host's interface has to begin with https://."}
	}
	f, err := connect(name[1], name[2], api, network.client(func(q *http.Request) {
		if r.Credential.Token != "" {
			q.Header.Set("Authorization", "Bearer "+r.Credential.Token.Reveal())
		}
	}))
	return hosted{f, r, api.String()}, err
}

func (h hosted) Repository(ctx context.Context) (Repository, error) {
	found, _, err := h.repository(ctx)
	if err != nil {
		return Repository{}, failure(ctx, err)
	}
	found.Clone, found.API = cmp.Or(found.Clone, h.r.Clone), h.api
	if h.r.HostID != "" && found.ID != h.r.HostID {
		return found, h.another()
	}
	return found, nil
}

// another is the failure of a name that leads to another repository.
func (h hosted) another() error {
	return &client.Failure{Class: client.Surroundings, Code: client.CodeIdentity,
		Message: fmt.Sprintf("Another repository has the name %s now. Connect it again if it is the right one.", h.r.Name)}
}

// traits are what of a repository hinders runs.
type traits struct {
	archived, reads, noIssues, noPulls, noMerge, noSquash bool // reads: the credential may not push
}

func (h hosted) Review(ctx context.Context, branch, web, landing, method string) ([]client.Check, error) {
	_, t, err := h.repository(ctx)
	if err != nil {
		return nil, failure(ctx, err)
	}
	settings := web + "/settings"
	var list []client.Check
	add := func(id string, lacking bool, ok, text, remedy string) {
		if !lacking {
			list = append(list, client.Check{ID: id, Status: events.CheckOK, Text: ok})
			return
		}
		list = append(list, lack(id, text, remedy, settings))
	}
	add("archived", t.archived, "The repository is in use.", "The repository is archived.", "Unarchive it at the code host.")
	add("permission", t.reads, "The credential may push.",
		"The credential may only read.", "Give the account of the credential the right to write.")
	if t.noIssues {
		list = append(list, note("issues", "The repository has no issues at the code host.", settings))
	}
	if t.noPulls {
		list = append(list, lack("pulls", "The repository has no pull requests at the code host.",
			"Enable them in the repository's settings at the code host, or connect it as git alone.", settings))
	}
	if landing != string(events.LandExactly) {
		squash := method == string(events.MergeSquash)
		add("method", t.noMerge && !squash || t.noSquash && squash,
			"The repository allows the merge method.", "The repository does not allow the merge method.",
			"Allow it in the repository's settings at the code host, or choose another one here.")
	}
	return append(list, h.rules(ctx, branch, web, landing, method)...), nil
}

func lack(id, text, remedy, address string) client.Check {
	return client.Check{ID: id, Status: events.CheckLacking, Text: text, Remedy: remedy, URL: address}
}

func note(id, text, address string) client.Check {
	return client.Check{ID: id, Status: events.CheckNoted, Text: text, URL: address}
}
