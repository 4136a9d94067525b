package aggregates

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

func TestRepoSettings(t *testing.T) {
	script := []events.JobStep{{Run: "make test"}}
	many := make([]events.RequiredJob, maxRequiredJobs+1)
	for i := range many {
		many[i] = events.RequiredJob{Name: fmt.Sprint("job ", i), Steps: script}
	}
	for name, c := range map[string]struct {
		field, wrong string // "" means that it is fine
		change       func(*events.RepoSettings)
	}{
		"all defaults":           {"", "", func(s *events.RepoSettings) { *s = events.RepoSettings{Branch: "main"} }},
		"a branch with a slash":  {"", "", func(s *events.RepoSettings) { s.Branch = "release/1.x" }},
		"as many jobs as may be": {"", "", func(s *events.RepoSettings) { s.RequiredJobs = many[1:] }},
		"one more":               {"requiredJobs", "must be 20 at most", func(s *events.RepoSettings) { s.RequiredJobs = many }},
		"a job without a name": {"requiredJobs.0.name",
			"must have 1 to 100 characters, none of them invisible, and not hold a service token",
			func(s *events.RepoSettings) { s.RequiredJobs = []events.RequiredJob{{Steps: script}} }},
		"a job without steps": {"requiredJobs.0.steps", "must have 1 to 50 items",
			func(s *events.RepoSettings) { s.RequiredJobs = []events.RequiredJob{{Name: "a"}} }},
		"a label that is none": {"requiredJobs.0.labels", "must be key=value, such as pool=default, or machine:key=value", func(
			s *events.RepoSettings,
		) {
			s.RequiredJobs = []events.RequiredJob{{Name: "a", Steps: script, Labels: []string{"x"}}}
		}},
		"too long a job": {"requiredJobs.0.runSeconds", "must be between 1 and 86400", func(s *events.RepoSettings) {
			s.RequiredJobs = []events.RequiredJob{{Name: "a", Steps: script, RunSeconds: 86401}}
		}},
		"a secret that is none": {"requiredJobs.0.secrets",
			"must have up to 64 capital letters, digits and underscores, and not start with a digit", func(s *events.RepoSettings) {
				s.RequiredJobs = []events.RequiredJob{{Name: "a", Steps: script, Secrets: []string{"x"}}}
			}},
		"two jobs of a name": {"requiredJobs.1.name", "must be another than those before it", func(s *events.RepoSettings) {
			s.RequiredJobs = []events.RequiredJob{{Name: "a", Steps: script}, {Name: "A", Steps: script}}
		}},
		"more text than may be": {
			"requiredJobs", "must be smaller: all settings may have 256 KiB",
			func(s *events.RepoSettings) {
				s.RequiredJobs = nil
				for i := range 5 {
					s.RequiredJobs = append(s.RequiredJobs, events.RequiredJob{
						Name: fmt.Sprint(i), Steps: []events.JobStep{{Run: strings.Repeat("x", 64<<10)}},
					})
				}
			},
		},
		"an implementer": {"", "", func(s *events.RepoSettings) {
			s.Implementer = events.Implementer{Kind: events.ImplementerCommand, Run: "./agent.sh", IdleSeconds: 900}
		}},
		"an unknown implementer": {"implementer.kind", "must be one of patch, command",
			func(s *events.RepoSettings) { s.Implementer.Kind = "magic" }},
		"a command of nothing": {"implementer.run", "must say what to run",
			func(s *events.RepoSettings) { s.Implementer = events.Implementer{Kind: events.ImplementerCommand} }},
		"a command for a patch": {"implementer.kind", "must be command if other fields are given",
			func(s *events.RepoSettings) { s.Implementer.Run = "true" }},
		"stages": {"", "", func(s *events.RepoSettings) {
			s.Implementer = events.Implementer{Kind: events.ImplementerCommand, Run: "x", Stages: []events.JobPurpose{"plan", "review"}}
		}},
		"a stage of its own": {"implementer.stages", "must be one of analyze, plan, review", func(s *events.RepoSettings) {
			s.Implementer = events.Implementer{Kind: events.ImplementerCommand, Run: "x", Stages: []events.JobPurpose{"merge"}}
		}},
		"a stage twice": {"implementer.stages", "must name each once", func(s *events.RepoSettings) {
			s.Implementer = events.Implementer{Kind: events.ImplementerCommand, Run: "x", Stages: []events.JobPurpose{"plan", "plan"}}
		}},
		"an idle day and more": {"implementer.idleSeconds", "must be between 0 and 86400", func(s *events.RepoSettings) {
			s.Implementer = events.Implementer{Kind: events.ImplementerCommand, Run: "x", IdleSeconds: 86401}
		}},
		"a token in a command": {"implementer.run", "must not hold a service token", func(s *events.RepoSettings) {
			s.Implementer = events.Implementer{Kind: events.ImplementerCommand, Run: "tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E"}
		}},
		"paths": {"", "", func(s *events.RepoSettings) { s.ProtectedPaths = []string{"deploy/**", "*.tf"} }},
		"a path outside": {"protectedPaths", "must be patterns of paths in the repository, such as deploy/**",
			func(s *events.RepoSettings) { s.ProtectedPaths = []string{"../x"} }},
		"a long path": {"protectedPaths", "must have 200 bytes at most",
			func(s *events.RepoSettings) { s.ProtectedPaths = []string{strings.Repeat("x", 201)} }},
		"many paths": {"protectedPaths", "must be 100 at most",
			func(s *events.RepoSettings) { s.ProtectedPaths = strings.Fields(strings.Repeat("x ", 101)) }},
		"a label":              {"", "", func(s *events.RepoSettings) { s.Label = "svc: please" }},
		"two labels":           {"label", "must be one line without commas", func(s *events.RepoSettings) { s.Label = "a,b" }},
		"a label of two lines": {"label", "must be one line without commas", func(s *events.RepoSettings) { s.Label = "a\nb" }},
		"a long label":         {"label", "must have 100 bytes at most", func(s *events.RepoSettings) { s.Label = strings.Repeat("x", 101) }},
		"a token as a label": {"label", "must not hold a service token", func(s *events.RepoSettings) {
			s.Label = "tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUV2ArA0E"
		}},
		"a label of who may approve": {"label",
			"must be empty while whoever queued an issue may not approve its merge: only the code host knows who labels",
			func(s *events.RepoSettings) { s.Label, s.ApproverNotQueue = "svc", true }},
		"an unknown landing": {"landing", "must be one of host, exact", func(s *events.RepoSettings) { s.Landing = "moon" }},
		"an unknown method":  {"method", "must be one of merge, squash", func(s *events.RepoSettings) { s.Method = "rebase" }},
		"too many runs":      {"maxActive", "must be between 1 and 100", func(s *events.RepoSettings) { s.MaxActive = 101 }},
		"fewer than none":    {"maxActive", "must be between 1 and 100", func(s *events.RepoSettings) { s.MaxActive = -1 }},
		"too many rounds":    {"rounds", "must be between 1 and 10", func(s *events.RepoSettings) { s.Rounds = 11 }},
		"a debt":             {"cents", "must be between 0 and 100000000", func(s *events.RepoSettings) { s.Cents = -1 }},
		"an issue's debt":    {"issueCents", "must be between 0 and 100000000", func(s *events.RepoSettings) { s.IssueCents = -1 }},
		"prices":             {"", "", func(s *events.RepoSettings) { s.Prices = events.TokenPrices{Input: 12.5, Output: 1000} }},
		"a price below nothing": {"prices.inputCents", "must be between 0 and 1000000",
			func(s *events.RepoSettings) { s.Prices.Input = -1 }},
		"no number": {"prices.outputCents", "must be between 0 and 1000000",
			func(s *events.RepoSettings) { s.Prices.Output = 1e7 }},
		"too many files": {"maxFiles", "must be between 1 and 10000", func(s *events.RepoSettings) { s.MaxFiles = 10_001 }},
		"too many lines": {"maxLines", "must be between 1 and 1000000", func(s *events.RepoSettings) { s.MaxLines = 1_000_001 }},
	} {
		t.Run(name, func(t *testing.T) {
			s := repoDefaults
			c.change(&s)
			got, err := CheckRepoSettings("", events.HostGitHub, s)
			if c.field != "" {
				require.Equal(t, fault.Fields(map[string][]string{c.field: {c.wrong}}), err)
				return
			}
			require.NoError(t, err)
			again, err := CheckRepoSettings("", events.HostGitHub, got)
			require.NoError(t, err)
			require.Equal(t, got, again, "what was completed needs nothing more")
		})
	}
}
