package runner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/wire"
)

func TestCheckout(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	start(t, f.enrolled())
	for _, format := range []string{"sha1", "sha256"} {
		repo, commit := repository(t, "--object-format="+format)
		inGit(t, repo, "branch", "feature/#123-café")
		inGit(t, repo, "tag", "-a", "-m", "one", "v1")
		for _, source := range []wire.Source{
			{URL: "file://" + repo, Commit: strings.ToUpper(commit)}, {URL: "file://" + repo, Ref: "refs/heads/feature/#123-café"},
			{URL: "file://" + repo, Ref: "refs/heads/main", Commit: commit}, {URL: "file://" + repo, Ref: "refs/tags/v1"},
		} {
			k := f.assign(wire.Assign{
				Source: &source, Env: map[string]string{"SVC_COMMIT": strings.ToLower(source.Commit)},
				Steps: steps("cat file; git rev-parse HEAD; echo $SVC_COMMIT; git config --get core.hookspath || echo none"),
			})
			require.Equal(t, "succeeded", f.ended(k).Outcome, f.log(k))
			require.Contains(t, f.log(k), "content\n"+commit+"\n"+commit+"\n")
			f.mu.Lock()
			second := f.jobs[k].events[1]
			f.mu.Unlock()
			if source.Commit == "" {
				require.Equal(t, wire.EventCheckedOut+" "+commit, second.Kind+" "+second.Commit, "before the steps")
			} else {
				require.Equal(t, wire.EventStepStarted, second.Kind)
			}
		}
	}
}

// What no other machine can check out fails at once. What another one may reach is tried again.
func TestCheckoutFailures(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	start(t, f.enrolled(), func(c *Config) { c.GitProtocols = "file:https" })
	repo, commit := repository(t)
	inGit(t, repo, "tag", "blob", commit+":file")
	lost, _ := repository(t) // its submodule's commit does not exist
	inGit(t, lost, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",sub")
	commitFiles(t, lost, map[string]string{".gitmodules": "[submodule \"sub\"]\n\tpath = sub\n\turl = file://" + repo + "\n"})
	outside, _ := repository(t) // its submodule has a protocol that checkouts may not use
	inGit(t, outside, "update-index", "--add", "--cacheinfo", "160000,"+commit+",sub")
	commitFiles(t, outside, map[string]string{".gitmodules": "[submodule \"sub\"]\n\tpath = sub\n\turl = http://127.0.0.1:1/repo\n"})
	for name, c := range map[string]struct {
		source wire.Source
		want   string
	}{
		"no such branch":           {wire.Source{URL: "file://" + repo, Ref: "refs/heads/mian"}, "failed"},
		"no such commit":           {wire.Source{URL: "file://" + repo, Commit: strings.Repeat("1", 40)}, "failed"},
		"commit not in the branch": {wire.Source{URL: "file://" + repo, Ref: "refs/heads/main", Commit: strings.Repeat("1", 40)}, "failed"},
		"no such branch of commit": {wire.Source{URL: "file://" + repo, Ref: "refs/heads/mian", Commit: strings.Repeat("1", 40)}, "failed"},
		"a name of no ref":         {wire.Source{URL: "file://" + repo, Ref: "refs/heads/a//b"}, "failed"},
		"a ref of a file":          {wire.Source{URL: "file://" + repo, Ref: "refs/tags/blob"}, "failed"},
		"commit of another format": {wire.Source{URL: "file://" + repo, Commit: strings.Repeat("1", 64)}, "failed"},
		"no commit of a submodule": {wire.Source{URL: "file://" + lost, Ref: "refs/heads/main"}, "failed"},
		"a submodule's protocol":   {wire.Source{URL: "file://" + outside, Ref: "refs/heads/main"}, "failed"},
		"no such repository":       {wire.Source{URL: "file://" + repo + "x", Commit: commit}, "failed"},
		"host does not answer":     {wire.Source{URL: "https://127.0.0.1:1/repo", Commit: commit}, "infra"},
	} {
		end := f.ended(f.assign(wire.Assign{Source: &c.source, Steps: steps("true")}))
		require.Equal(t, c.want+" checkout_failed", end.Outcome+" "+end.Reason, name)
	}
}
