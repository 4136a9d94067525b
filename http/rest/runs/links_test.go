package runs

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/projections/runviews"
)

func TestRunLinks(t *testing.T) {
	t.Parallel()
	at := func(kind, address, repo string, pr *int) *links {
		u, err := url.Parse(address)
		require.NoError(t, err)
		return (&CodeHost{kind, u}).links(runviews.Run{RepoName: repo, IssueNumber: 7, PRNumber: pr})
	}
	require.Equal(t, &links{
		"https://github.com/acme/web/issues/7", "https://github.com/acme/web/pull/12", "https://github.com/acme/web/pull/12/files",
	}, at("github", "https://github.com", "acme/web", new(12)))
	for _, kind := range []string{"gitea", "forgejo"} {
		require.Equal(t, &links{
			"https://git.example/below/acme/web/issues/7", "https://git.example/below/acme/web/pulls/12",
			"https://git.example/below/acme/web/pulls/12/files",
		}, at(kind, "https://git.example/below/", "acme/web", new(12)), kind)
	}
	require.Equal(t, &links{Issue: "https://github.com/acme/web/issues/7"}, at("github", "https://github.com", "acme/web", nil))
	require.Equal(t, "https://github.com/acme/a%3Fb%23c%22/issues/7", at("github", "https://github.com", `acme/a?b#c"`, nil).Issue)
	for _, repo := range []string{"", "..", "../login", "acme/../..", "/acme"} {
		require.Nil(t, at("github", "https://github.com", repo, nil), repo)
	}
	require.Nil(t, (*CodeHost)(nil).links(runviews.Run{RepoName: "acme/web"}), "people sign in by no code host")
}
