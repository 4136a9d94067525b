package rest

import (
	"io/fs"
	"net/url"
	"strconv"

	"svc/projections"
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

// links returns the links of a run, or nil if h is nil or the repository's name is not a path.
func (h *CodeHost) links(r projections.Run) *links {
	if h == nil || !fs.ValidPath(r.RepoName) {
		return nil
	}
	repo := h.URL.JoinPath(r.RepoName)
	out := &links{Issue: repo.JoinPath("issues", strconv.Itoa(r.IssueNumber)).String()}
	if r.PRNumber != nil {
		pulls := "pull"
		if h.Kind != "github" {
			pulls = "pulls"
		}
		pull := repo.JoinPath(pulls, strconv.Itoa(*r.PRNumber))
		out.PullRequest, out.Changes = pull.String(), pull.JoinPath("files").String()
	}
	return out
}

var exampleHost = &CodeHost{Kind: "github", URL: &url.URL{Scheme: "https", Host: "github.com"}}
