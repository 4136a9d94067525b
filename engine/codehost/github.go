package codehost

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/go-github/v75/github"

	"svc/engine/client"
	"svc/events"
)

// publicAPI is the interface of github.com.
const publicAPI = "https://api.github.com"

// gitHub is a repository at GitHub, or at a host with the same interface.
type gitHub struct {
	r           client.Repository
	owner, name string
	api         *github.Client
}

func newGitHub(r client.Repository, network Network) (*gitHub, error) {
	name := namePattern.FindStringSubmatch(r.Name)
	if name == nil {
		return nil, &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The repository's name is not of the form owner/name."}
	}
	base, err := url.Parse(strings.TrimSuffix(cmp.Or(r.API, publicAPI), "/") + "/")
	if err != nil || base.Host == "" || base.User != nil || base.Scheme != "https" && (base.Scheme != "http" || !network.AllowLocal) {
		return nil, &client.Failure{Class: client.Surroundings, Code: client.CodeNoRepository,
			Message: "The address of the code host's interface has to begin with https://."}
	}
	api := github.NewClient(network.client(func(q *http.Request) {
		if r.Credential.Token != "" {
			q.Header.Set("Authorization", "Bearer "+r.Credential.Token.Reveal())
		}
	}))
	api.BaseURL, api.DisableRateLimitCheck = base, true
	return &gitHub{r, name[1], name[2], api}, nil
}

func (g *gitHub) Repository(ctx context.Context) (Repository, error) {
	r, res, err := g.api.Repositories.Get(ctx, g.owner, g.name)
	if err != nil {
		return Repository{}, failure(ctx, err)
	}
	found := Repository{
		ID: strconv.FormatInt(r.GetID(), 10), Name: r.GetFullName(), Web: r.GetHTMLURL(), Clone: cmp.Or(r.GetCloneURL(), g.r.Clone),
		API: strings.TrimSuffix(g.api.BaseURL.String(), "/"), DefaultBranch: r.GetDefaultBranch(), Private: r.GetPrivate(),
		RequestsLeft: res.Rate.Remaining,
	}
	if g.r.HostID != "" && found.ID != g.r.HostID {
		return found, &client.Failure{Class: client.Surroundings, Code: client.CodeIdentity,
			Message: fmt.Sprintf("Another repository has the name %s now. Connect it again if it is the right one.", g.r.Name)}
	}
	return found, nil
}

func (g *gitHub) Review(ctx context.Context, branch, web, landing, method string) ([]client.Check, error) {
	r, _, err := g.api.Repositories.Get(ctx, g.owner, g.name)
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
		list = append(list, client.Check{ID: id, Status: events.CheckLacking, Text: text, Remedy: remedy, URL: settings})
	}
	add("archived", r.GetArchived(), "The repository is in use.", "The repository is archived.", "Unarchive it at the code host.")
	add("permission", r.Permissions != nil && !r.GetPermissions()["push"], "The credential may push.",
		"The credential may only read.", "Give the account of the credential the right to write.")
	if r.HasIssues != nil && !r.GetHasIssues() {
		list = append(list, client.Check{ID: "issues", Status: events.CheckNoted, Text: "The repository has no issues at the code host.", URL: settings})
	}
	if landing != string(events.LandExactly) {
		merge := r.AllowMergeCommit != nil && !r.GetAllowMergeCommit() && method != string(events.MergeSquash)
		squash := r.AllowSquashMerge != nil && !r.GetAllowSquashMerge() && method == string(events.MergeSquash)
		add("method", merge || squash, "The repository allows the merge method.", "The repository does not allow the merge method.",
			"Allow it in the repository's settings at the code host, or choose another one here.")
	}
	return append(list, g.rules(ctx, branch, web, landing, method)...), nil
}

// rules returns what the rules of a branch, if they can be read, mean for runs.
func (g *gitHub) rules(ctx context.Context, branch, web, landing, method string) []client.Check {
	rules, _, err := g.api.Repositories.GetRulesForBranch(ctx, g.owner, g.name, url.PathEscape(branch), nil)
	if err != nil {
		return nil // hosts without rules answer 404
	}
	address := web + "/rules"
	lacking := func(id, text, remedy string) client.Check {
		return client.Check{ID: id, Status: events.CheckLacking, Text: text, Remedy: remedy, URL: address}
	}
	var list []client.Check
	if len(rules.RequiredSignatures) > 0 {
		list = append(list, lacking("signatures", "The target branch requires signed commits, and commits of runs have no signature.",
			"Exempt the account of the credential from the rule."))
	}
	if len(rules.MergeQueue) > 0 {
		list = append(list, lacking("merge_queue", "The target branch requires the code host's merge queue, which runs do not use.",
			"Exempt the account of the credential from the rule."))
	}
	if len(rules.RequiredLinearHistory) > 0 && method != string(events.MergeSquash) {
		list = append(list, lacking("linear_history", "The target branch allows no merge commits.", "Choose the merge method squash here."))
	}
	if len(rules.PullRequest) > 0 && landing == string(events.LandExactly) {
		list = append(list, lacking("pull_requests", "The target branch changes only by pull requests.",
			"Let the code host merge, or exempt the account of the credential from the rule."))
	}
	for _, rule := range rules.PullRequest {
		if rule.Parameters.RequiredApprovingReviewCount > 0 {
			list = append(list, client.Check{ID: "reviews", Status: events.CheckNoted, URL: address,
				Text: "The code host asks for reviews of its own before it merges into the target branch."})
			break
		}
	}
	if len(rules.RequiredStatusChecks) > 0 {
		list = append(list, client.Check{ID: "status_checks", Status: events.CheckNoted, URL: address,
			Text: "The code host asks for checks of its own before it merges into the target branch."})
	}
	return list
}
