package runs

import (
	"io/fs"
	"net/url"
	"strconv"

	"svc/events"
	"svc/projections"
	"svc/projections/runviews"
)

// A CodeHost is the code host with the issues and pull requests of runs.
type CodeHost struct {
	Kind string   // github, gitea or forgejo
	URL  *url.URL // for browsers
}

// links are browser URLs of a run at the code host.
type links struct {
	Issue       string `json:"issue" format:"uri" example:"https://github.com/acme/web/issues/7"`
	PullRequest string `json:"pullRequest,omitempty" format:"uri" doc:"Present once there is a pull request." example:"https://github.com/acme/web/pull/12"`
	Changes     string `json:"changes,omitempty" format:"uri" doc:"The pull request's changes. Present once there is a pull request." example:"https://github.com/acme/web/pull/12/files"`
}

// linksAt returns the links of a run: at the site of its repository if that is or was connected, and otherwise by the
// name of the repository at the code host of all others.
func (h *CodeHost) linksAt(sites map[events.ID]projections.RepoSite, r runviews.Run) *links {
	site, ok := sites[r.Repo]
	if !ok {
		return h.links(r)
	}
	web, err := url.Parse(site.Web)
	if err != nil || site.Web == "" || site.Kind == events.HostGit { // which has no issues and no pull requests
		return nil
	}
	return newLinks(web, string(site.Kind), r)
}

// links returns the links of a run, or nil if h is nil or the repository's name is not a path.
func (h *CodeHost) links(r runviews.Run) *links {
	if h == nil || !fs.ValidPath(r.RepoName) {
		return nil
	}
	return newLinks(h.URL.JoinPath(r.RepoName), h.Kind, r)
}

func newLinks(repo *url.URL, kind string, r runviews.Run) *links {
	pulls := "pulls"
	if kind == string(events.HostGitHub) {
		pulls = "pull"
	}
	out := &links{Issue: repo.JoinPath("issues", strconv.Itoa(r.IssueNumber)).String()}
	if r.PRNumber != nil {
		pull := repo.JoinPath(pulls, strconv.Itoa(*r.PRNumber))
		out.PullRequest, out.Changes = pull.String(), pull.JoinPath("files").String()
	}
	return out
}

var exampleHost = &CodeHost{Kind: "github", URL: &url.URL{Scheme: "https", Host: "github.com"}}
