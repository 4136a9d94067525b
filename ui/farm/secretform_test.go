package farm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

func TestScopeOfSecretForm(t *testing.T) {
	t.Parallel()
	list := func(items ...string) *[]string { return &items }
	for name, c := range map[string]struct {
		form secretForm
		want *client.SecretScope
	}{
		"an empty one of a new secret leaves the scope": {form: secretForm{name: "A"}},
		"an empty one of another secret does too":       {form: secretForm{name: "A", shows: "B"}},
		"an empty one that shows the scope removes it":  {form: secretForm{name: "A", shows: "A"}, want: &client.SecretScope{}},
		"all fields": {
			form: secretForm{name: "A", jobs: "publish\r\n\n unit tests, all ", repos: []string{"r"}, labels: "pool=a, pool=b"},
			want: &client.SecretScope{Jobs: list("publish", "unit tests, all"), Repos: list("r"), Labels: list("pool=a", "pool=b")},
		},
	} {
		require.Equal(t, c.want, c.form.scope(), name)
	}
}

// A repository that is not listed any more stays in the scope when that is saved.
func TestScopeKeepsUnknownRepositories(t *testing.T) {
	t.Parallel()
	s := secretsData{Repos: []client.RepoRuns{
		{Id: "r1", Name: "acme/api"}, {Id: "r2", Name: "acme/web", Status: client.RepoRunsStatusUnconnected},
	}}
	scope := client.SecretScope{Repos: &[]string{"r2", "gone"}}
	s.List.Items = []client.FarmSecret{{Name: "A", Scope: scope}}
	s.Form = s.formOf("A")
	require.Equal(t, []scopeRepo{{"r1", "acme/api", false}, {"r2", "acme/web (unconnected)", true}, {"gone", "gone", true}}, s.scopeRepos())
	require.Equal(t, &scope, s.Form.scope())
	require.Equal(t, "Only for jobs of acme/web (unconnected) or gone", s.scopeText(scope))
	require.Equal(t, secretForm{name: "B"}, s.formOf("B"))
}
