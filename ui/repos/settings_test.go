package repos

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

// everySetting are settings in which each field differs from the default.
func everySetting() client.RepoSettings {
	return client.RepoSettings{
		Branch: "trunk", Landing: client.RepoSettingsLandingExact, Method: client.RepoSettingsMethodSquash, MaxActive: 3, Rounds: 2, Cents: 250,
		IssueCents: 1000, Prices: client.TokenPrices{InputCents: 7, OutputCents: 62.5},
		MaxFiles: 9, MaxLines: 90, MayAllowOnce: true, ApproverNotQueuer: true, ProtectedPaths: []string{"deploy/**", "a b/*"},
		Implementer: client.RepoImplementer{
			Kind: client.Command, Run: new("set -e\n./agent.sh"), Secrets: &[]string{"KEY", "OTHER"},
			RunSeconds: new(int64(90)), IdleSeconds: new(int64(7)),
		},
		RequiredJobs: []client.RequiredJob{{
			Name: "test", Labels: &[]string{"os=linux"}, SecretsBeforeApproval: new(true), Secrets: &[]string{"NPM"},
			Sandbox: &client.JobSandbox{Kind: new(client.JobSandboxKindBubblewrap), MemoryMiB: new(int64(512))},
			Steps: []client.JobStepSpec{
				{Run: "one", Env: &map[string]string{"CI": "true"}}, {Run: "two\n", TimeoutSeconds: new(int64(5))},
			},
		}, {Name: "lint", Steps: []client.JobStepSpec{{Run: "lint"}}}},
	}
}

var (
	fieldPattern = regexp.MustCompile(`(?s)<input[^>]*?name="([^"]*)"[^>]*>|` +
		`<textarea[^>]*?name="([^"]*)"[^>]*>([^<]*)</textarea>|<select[^>]*?name="([^"]*)".*?</select>`)
	valuePattern = regexp.MustCompile(`value="([^"]*)"`)
	chosen       = regexp.MustCompile(`value="([^"]*)" selected`)
)

// fieldsOf returns what a browser would send of a form.
func fieldsOf(page string) url.Values {
	plain := strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&lt;", "<", "&gt;", ">", "&amp;", "&")
	sent := url.Values{}
	for _, m := range fieldPattern.FindAllStringSubmatch(page, -1) {
		switch {
		case m[2] != "":
			sent.Add(m[2], strings.ReplaceAll(plain.Replace(m[3]), "\n", "\r\n"))
		case m[4] != "":
			sent.Add(m[4], chosen.FindStringSubmatch(m[0])[1])
		case strings.Contains(m[0], `type="checkbox"`) || strings.Contains(m[0], `type="radio"`):
			if strings.Contains(m[0], " checked") {
				sent.Add(m[1], valuePattern.FindStringSubmatch(m[0])[1])
			}
		default:
			value := ""
			if v := valuePattern.FindStringSubmatch(m[0]); v != nil {
				value = v[1]
			}
			sent.Add(m[1], plain.Replace(value))
		}
	}
	return sent
}

// settingsFields returns what a browser would send of the unchanged form of settings.
func settingsFields(t *testing.T, s client.RepoSettings) url.Values {
	t.Helper()
	d := repoData{RepoDetail: client.RepoDetail{Id: "7", Name: "acme/web", Kind: "github", Settings: s}, Form: newSettingsForm(s)}
	return fieldsOf(render(t, settingsCard(visit(client.YouRoleOwner, nil), d)))
}

// A form that is sent as it was rendered changes nothing, also what it has no field for.
func TestUnchangedFormChangesNothing(t *testing.T) {
	t.Parallel()
	for _, s := range []client.RepoSettings{everySetting(), {
		Branch: "main", Implementer: client.RepoImplementer{Kind: client.Patch}, ProtectedPaths: []string{}, RequiredJobs: []client.RequiredJob{},
		Landing: client.RepoSettingsLandingHost, Method: client.RepoSettingsMethodMerge, MaxActive: 5, Rounds: 3, MaxFiles: 50, MaxLines: 1500,
	}} {
		body, err := postedSettings(visit(client.YouRoleOwner, settingsFields(t, s))).change()
		require.NoError(t, err)
		require.Equal(t, client.RepoChangeBody{}, body)
	}
}

// Only what the person changed is sent.
func TestOnlyChangesAreSent(t *testing.T) {
	t.Parallel()
	fields := settingsFields(t, everySetting())
	fields.Set("dollars", "2.75")
	fields.Set("issue-dollars", "$20")
	fields.Set("output-dollars", "0.07")
	fields.Set("job-1-sandbox", sandboxNone)
	fields.Del("may-allow-once")
	body, err := postedSettings(visit(client.YouRoleOwner, fields)).change()
	require.NoError(t, err)
	jobs := everySetting().RequiredJobs
	jobs[1].Sandbox = &client.JobSandbox{Kind: new(client.JobSandboxKindNone)}
	require.Equal(t, client.RepoChangeBody{
		Cents: new(int64(275)), IssueCents: new(int64(2000)), Prices: &client.TokenPrices{InputCents: 7, OutputCents: 7},
		MayAllowOnce: new(false), RequiredJobs: &jobs,
	}, body)
}

func TestRefusedNumbersAndJobs(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]struct{ value, message string }{
		"dollars":       {"much", "The budget must be an amount in dollars"},
		"input-dollars": {"10001", "The price of input tokens must be an amount in dollars"},
		"max-active":    {"", "Active runs must be a whole number."},
		"job-1-name":    {" ", "Required job 2 needs a name and a script."},
		"job-1-step":    {"\r\n", "Required job 2 needs a name and a script."},
		"command-step":  {"", "The command must not be empty."},
	} {
		fields := settingsFields(t, everySetting())
		fields.Set(field, c.value)
		_, err := postedSettings(visit(client.YouRoleOwner, fields)).change()
		require.ErrorContains(t, err, c.message, field)
	}
}

// Jobs are added and removed in the form, without saving anything.
func TestJobsAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	fields := settingsFields(t, everySetting())
	fields.Set("do", "add")
	v := visit(client.YouRoleOwner, fields)
	_, err := changeSettings(v)
	require.Equal(t, errOnlyShown, err)
	require.Len(t, v.Result.(settingsForm).jobs, 3)
	fields.Set("do", "remove 0")
	v = visit(client.YouRoleOwner, fields)
	_, err = changeSettings(v)
	require.Equal(t, errOnlyShown, err)
	require.Equal(t, "lint", v.Result.(settingsForm).jobs[0].name)
}

func TestSandboxChoices(t *testing.T) {
	t.Parallel()
	for _, choice := range []string{sandboxAlone, sandboxNetwork, sandboxNone} {
		s := withSandbox(&client.JobSandbox{MemoryMiB: new(int64(1))}, choice)
		require.Equal(t, choice, sandboxChoice(s))
		require.Equal(t, int64(1), *s.MemoryMiB)
	}
	require.Nil(t, withSandbox(nil, sandboxAlone))
}
