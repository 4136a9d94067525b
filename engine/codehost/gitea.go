package codehost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"code.gitea.io/sdk/gitea"

	"svc/engine/client"
	"svc/events"
)

// giteaForge is a repository at Gitea or Forgejo.
type giteaForge struct {
	owner, name string
	api         *gitea.Client
	base        *url.URL // and the client beneath, for what that cannot do
	http        *http.Client
}

// newGitea returns a client that does not ask for the version of the host.
func newGitea(owner, name string, api *url.URL, c *http.Client) (forge, error) {
	g, err := gitea.NewClient(strings.TrimSuffix(api.String(), "/api/v1"), gitea.SetHTTPClient(c), gitea.SetGiteaVersion(""))
	return &giteaForge{owner, name, g, api, c}, err
}

// in returns the client for requests that end with ctx. A step does one after the other.
func (g *giteaForge) in(ctx context.Context) *gitea.Client {
	g.api.SetContext(ctx)
	return g.api
}

func (g *giteaForge) repository(ctx context.Context) (Repository, traits, error) {
	r, _, err := g.in(ctx).GetRepo(g.owner, g.name)
	if err != nil {
		return Repository{}, traits{}, err
	}
	return Repository{
			ID: strconv.FormatInt(r.ID, 10), Name: r.FullName, Web: r.HTMLURL, Clone: r.CloneURL, DefaultBranch: r.DefaultBranch,
			Private: r.Private || r.Internal,
		}, traits{
			archived: r.Archived, reads: r.Permissions != nil && !r.Permissions.Push, noIssues: !r.HasIssues,
			noPulls: !r.HasPullRequests, noMerge: !r.AllowMerge, noSquash: !r.AllowSquash,
		}, nil
}

// rules reads the branch, which says what this account may, and the rule that protects it, which only
// administrators of the repository may read.
func (g *giteaForge) rules(ctx context.Context, branch, web, landing, _ string) []client.Check {
	b, _, err := g.in(ctx).GetRepoBranch(g.owner, g.name, branch)
	if err != nil || !b.Protected {
		return nil
	}
	address := web + "/settings/branches"
	var list []client.Check
	switch exact := landing == string(events.LandExactly); {
	case exact && !b.UserCanPush:
		list = append(list, lack("push_protected", "The account of the credential may not push to the target branch.",
			"Let the code host merge, or add the account to those that may push in the branch's rule.", address))
	case !exact && !b.UserCanMerge:
		list = append(list, lack("merge_protected", "The account of the credential may not merge into the target branch.",
			"Add the account to those that may merge in the branch's rule.", address))
	}
	if b.RequiredApprovals > 0 {
		list = append(list, note("reviews", fmt.Sprintf(
			"The code host asks for %d reviews of its own before it merges into the target branch.", b.RequiredApprovals), address))
	}
	if b.EnableStatusCheck {
		list = append(list, note("status_checks", "The code host asks for checks of its own before it merges into the target branch: "+
			cut(strings.Join(b.StatusCheckContexts, ", ")), address))
	}
	all, _, err := g.in(ctx).ListBranchProtections(g.owner, g.name, gitea.ListBranchProtectionsOptions{})
	if err != nil {
		return list
	}
	at := slices.IndexFunc(all, func(p *gitea.BranchProtection) bool { return p.RuleName == b.EffectiveBranchProtectionName })
	if at < 0 {
		return list
	}
	if all[at].RequireSignedCommits {
		list = append(list, lack("signatures", "The target branch requires signed commits, and commits of runs have no signature.",
			"Take the requirement out of the branch's rule.", address))
	}
	if all[at].BlockOnOutdatedBranch && landing != string(events.LandExactly) {
		list = append(list, lack("outdated",
			"The target branch takes only branches that contain it, and runs leave theirs as they were approved.",
			"Take the requirement out of the branch's rule, or land exactly: what is merged was tested with the target branch.", address))
	}
	if files := all[at].ProtectedFilePatterns; files != "" {
		list = append(list, note("protected_files", "The code host does not merge changes of these files into the target branch: "+
			cut(files)+". Protect them here, too.", address))
	}
	return list
}

// issues leaves out the label if its name would be read as two.
func (g *giteaForge) issues(ctx context.Context, label string, page int) (list []issue, next int, err error) {
	opts := gitea.ListIssueOption{ListOptions: giteaPage(page), State: gitea.StateOpen, Type: gitea.IssueTypeIssue}
	if label != "" && !strings.Contains(label, ",") {
		opts.Labels = []string{label}
	}
	found, res, err := g.in(ctx).ListRepoIssues(g.owner, g.name, opts)
	if err != nil {
		return nil, 0, g.unlessOff(ctx, err)
	}
	for _, i := range found { // the host ignores labels that it does not find, such as those of an organization
		if one := giteaIssue(i); label == "" || slices.Contains(one.Labels, label) {
			list = append(list, one)
		}
	}
	return list, res.NextPage, nil
}

// unlessOff returns nil if the host finds no issues because the repository has none.
func (g *giteaForge) unlessOff(ctx context.Context, err error) error {
	if _, t, failed := g.repository(ctx); gone(err) && failed == nil && t.noIssues {
		return nil
	}
	return err
}

// giteaPage asks for the largest page. The host gives as much as it is set up to.
func giteaPage(page int) gitea.ListOptions { return gitea.ListOptions{Page: page, PageSize: hostPage} }

func (g *giteaForge) issue(ctx context.Context, number int) (issue, error) {
	i, _, err := g.in(ctx).GetIssue(g.owner, g.name, int64(number))
	if err != nil {
		return issue{}, err
	}
	return giteaIssue(i), nil
}

func giteaIssue(i *gitea.Issue) issue {
	labels := []string{}
	for _, l := range i.Labels {
		labels = append(labels, l.Name)
	}
	return issue{client.Issue{
		Number: int(i.Index), Title: i.Title, Body: i.Body, Open: i.State == gitea.StateOpen, URL: i.HTMLURL, Author: login(i.Poster),
		Labels: labels, CreatedAt: i.Created, UpdatedAt: i.Updated,
	}, i.PullRequest != nil}
}

func login(u *gitea.User) string {
	if u == nil {
		return ""
	}
	return u.UserName
}

func (g *giteaForge) comments(ctx context.Context, issue, page int) (list []comment, next int, err error) {
	found, res, err := g.in(ctx).ListIssueComments(g.owner, g.name, int64(issue), gitea.ListIssueCommentOptions{ListOptions: giteaPage(page)})
	if err != nil {
		return nil, 0, err
	}
	for _, c := range found {
		list = append(list, comment{c.ID, c.Body})
	}
	return list, res.NextPage, nil
}

func (g *giteaForge) comment(ctx context.Context, issue int, body string) error {
	_, _, err := g.in(ctx).CreateIssueComment(g.owner, g.name, int64(issue), gitea.CreateIssueCommentOption{Body: body})
	return err
}

func (g *giteaForge) editComment(ctx context.Context, id int64, body string) error {
	_, _, err := g.in(ctx).EditIssueComment(g.owner, g.name, id, gitea.EditIssueCommentOption{Body: body})
	return err
}
