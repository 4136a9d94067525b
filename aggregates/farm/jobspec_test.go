package farm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
)

func TestJobDefaults(t *testing.T) {
	s, err := CheckJob(events.JobSpec{Name: "  unit   tests ", Steps: []events.JobStep{{Run: "true"}, {Name: "b", Run: "false"}},
		Requires: events.JobRequires{Labels: []string{"os=linux", "arch=amd64", "os=linux"}}, Concurrency: &events.JobConcurrency{Key: "k"}})
	require.NoError(t, err)
	require.Equal(t, events.JobSpec{
		Name: "unit tests", Steps: []events.JobStep{{Name: "Step 1", Run: "true", Shell: "sh"}, {Name: "b", Run: "false", Shell: "sh"}},
		Requires: events.JobRequires{Labels: []string{"arch=amd64", "os=linux"}}, Sandbox: events.JobSandbox{Kind: "bubblewrap", Network: "none"},
		Priority: events.NormalPriority, Timeouts: events.JobTimeouts{QueueSeconds: day, RunSeconds: 3600},
		Retry: events.JobRetry{MaxAttempts: 3, On: []string{"lost", "infra"}}, Concurrency: &events.JobConcurrency{Key: "k", Limit: 1},
	}, s)
	require.Equal(t, []string{"arch=amd64", "os=linux", "sandbox=bubblewrap"}, s.Required().Labels)
}

// A job whose changes are collected has the artifact that has them, and a commit to compare with.
func TestCollectedJob(t *testing.T) {
	s := events.JobSpec{
		Name: "implement", Steps: []events.JobStep{{Run: "true"}}, Collect: true, InputSHA256: strings.Repeat("0a", 32),
		Repo: &events.JobRepo{Commit: strings.Repeat("A", 40)}, Artifacts: []events.JobArtifactSpec{{Name: "dist", Paths: []string{"dist"}}},
	}
	checked, err := CheckJob(s)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("a", 40), checked.Repo.Commit)
	require.Equal(t, events.JobArtifactSpec{Name: OutArtifact, Paths: []string{".svc-out/**"}, When: "always"}, checked.Artifacts[1])
	require.Len(t, s.Artifacts, 1)
	again, err := CheckJob(checked)
	require.NoError(t, err)
	require.Equal(t, checked, again)

	s.Repo, s.InputSHA256 = &events.JobRepo{Ref: "refs/heads/feature/#123-café"}, "0A"
	_, err = CheckJob(s)
	require.Equal(t, []string{"collect", "inputSha256"}, slices.Sorted(maps.Keys(fault.As(err).Details)))
}

// Each limit accepts its maximum, and reports its field for anything beyond.
func TestBoundsOfAJob(t *testing.T) {
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m["A"+strings.Repeat("x", i)] = "v"
		}
		return m
	}
	text := func(n int) string { return strings.Repeat("x", n) }
	artifact := func(change func(*events.JobArtifactSpec)) func(*events.JobSpec, int) {
		return func(s *events.JobSpec, _ int) {
			a := events.JobArtifactSpec{Name: "dist", Paths: []string{"dist/**"}}
			change(&a)
			s.Artifacts = []events.JobArtifactSpec{a}
		}
	}
	for name, c := range map[string]struct {
		field string
		most  int
		set   func(*events.JobSpec, int)
	}{
		"steps":         {"steps", maxSteps, func(s *events.JobSpec, n int) { s.Steps = slices.Repeat([]events.JobStep{{Run: "x"}}, n) }},
		"a script":      {"steps.0.run", maxScript, func(s *events.JobSpec, n int) { s.Steps[0].Run = text(n) }},
		"variables":     {"steps.0.env", maxEnv, func(s *events.JobSpec, n int) { s.Steps[0].Env = many(n) }},
		"a variable":    {"steps.0.env", maxEnvText, func(s *events.JobSpec, n int) { s.Steps[0].Env = map[string]string{"A": text(n)} }},
		"a step's time": {"steps.0.timeoutSeconds", day, func(s *events.JobSpec, n int) { s.Steps[0].TimeoutSeconds = n }},
		"labels": {"requires.labels", maxJobLabels,
			func(s *events.JobSpec, n int) { s.Requires.Labels = slices.Repeat([]string{"a=b"}, n) }},
		"sets":    {"requires.anyOf", maxLabelSets, func(s *events.JobSpec, n int) { s.Requires.AnyOf = slices.Repeat([][]string{{"a=b"}}, n) }},
		"secrets": {"secrets", maxSecrets, func(s *events.JobSpec, n int) { s.Secrets = slices.Repeat([]string{"A"}, n) }},
		"paths": {"artifacts.0.paths", maxPaths, func(s *events.JobSpec, n int) {
			s.Artifacts = []events.JobArtifactSpec{{Name: "a", Paths: slices.Repeat([]string{"a"}, n)}}
		}},
		"a path": {"artifacts.0.paths", 400, func(s *events.JobSpec, n int) {
			s.Artifacts = []events.JobArtifactSpec{{Name: "a", Paths: []string{text(n)}}}
		}},
		"notes":      {"annotations", maxAnnotations, func(s *events.JobSpec, n int) { s.Annotations = many(n) }},
		"a note":     {"annotations", 500, func(s *events.JobSpec, n int) { s.Annotations = map[string]string{"a": text(n)} }},
		"memory":     {"sandbox.memoryMiB", 1 << 20, func(s *events.JobSpec, n int) { s.Sandbox.MemoryMiB = n }},
		"processors": {"sandbox.cpus", 1024, func(s *events.JobSpec, n int) { s.Sandbox.CPUs = float64(n) }},
		"the queue":  {"timeouts.queueSeconds", 7 * day, func(s *events.JobSpec, n int) { s.Timeouts.QueueSeconds = n }},
		"the run":    {"timeouts.runSeconds", day, func(s *events.JobSpec, n int) { s.Timeouts.RunSeconds = n }},
		"the grace":  {"timeouts.cancelGraceSeconds", 600, func(s *events.JobSpec, n int) { s.Timeouts.CancelGraceSeconds = n }},
		"silence":    {"timeouts.idleSeconds", day, func(s *events.JobSpec, n int) { s.Timeouts.IdleSeconds = n }},
		"attempts":   {"retry.maxAttempts", maxAttempts, func(s *events.JobSpec, n int) { s.Retry.MaxAttempts = n }},
		"at once": {"concurrency.limit", maxConcurrent,
			func(s *events.JobSpec, n int) { s.Concurrency = &events.JobConcurrency{Key: "k", Limit: n} }},
		"a key":        {"concurrency.key", 200, func(s *events.JobSpec, n int) { s.Concurrency = &events.JobConcurrency{Key: text(n)} }},
		"a name":       {"name", 100, func(s *events.JobSpec, n int) { s.Name = text(n) }},
		"a step named": {"steps.0.name", 100, func(s *events.JobSpec, n int) { s.Steps[0].Name = text(n) }},
	} {
		t.Run(name, func(t *testing.T) {
			for n, ok := range map[int]bool{c.most: true, c.most + 1: false} {
				s := events.JobSpec{Name: "tests", Steps: []events.JobStep{{Run: "true"}}}
				c.set(&s, n)
				_, err := CheckJob(s)
				if ok {
					require.NoError(t, err)
					continue
				}
				require.Equal(t, []string{c.field}, slices.Collect(maps.Keys(fault.As(err).Details)))
			}
		})
	}
	for name, c := range map[string]struct {
		field string
		set   func(*events.JobSpec, int)
	}{
		"no name":              {"name", func(s *events.JobSpec, _ int) { s.Name = " " }},
		"no steps":             {"steps", func(s *events.JobSpec, _ int) { s.Steps = nil }},
		"no script":            {"steps.0.run", func(s *events.JobSpec, _ int) { s.Steps[0].Run = " \n" }},
		"a NUL":                {"steps.0.run", func(s *events.JobSpec, _ int) { s.Steps[0].Run = "a\x00" }},
		"another shell":        {"steps.0.shell", func(s *events.JobSpec, _ int) { s.Steps[0].Shell = "zsh" }},
		"a variable's name":    {"steps.0.env", func(s *events.JobSpec, _ int) { s.Steps[0].Env = map[string]string{"a-b": ""} }},
		"a time below":         {"steps.0.timeoutSeconds", func(s *events.JobSpec, _ int) { s.Steps[0].TimeoutSeconds = -1 }},
		"a label":              {"requires.labels", func(s *events.JobSpec, _ int) { s.Requires.Labels = []string{"linux"} }},
		"an empty set":         {"requires.anyOf", func(s *events.JobSpec, _ int) { s.Requires.AnyOf = [][]string{{}} }},
		"a sandbox":            {"sandbox.kind", func(s *events.JobSpec, _ int) { s.Sandbox.Kind = "vm" }},
		"a network":            {"sandbox.network", func(s *events.JobSpec, _ int) { s.Sandbox.Network = "all" }},
		"a secret's name":      {"secrets", func(s *events.JobSpec, _ int) { s.Secrets = []string{"npm token"} }},
		"a priority":           {"priority", func(s *events.JobSpec, _ int) { s.Priority = "urgent" }},
		"a retry":              {"retry.on", func(s *events.JobSpec, _ int) { s.Retry.On = []string{"failed"} }},
		"no key":               {"concurrency.key", func(s *events.JobSpec, _ int) { s.Concurrency = &events.JobConcurrency{} }},
		"neither commit nor":   {"repo", func(s *events.JobSpec, _ int) { s.Repo = &events.JobRepo{} }},
		"a commit":             {"repo.commit", func(s *events.JobSpec, _ int) { s.Repo = &events.JobRepo{Commit: "main"} }},
		"a ref":                {"repo.ref", func(s *events.JobSpec, _ int) { s.Repo = &events.JobRepo{Ref: "main"} }},
		"a ref of a lock":      {"repo.ref", func(s *events.JobSpec, _ int) { s.Repo = &events.JobRepo{Ref: "refs/heads/foo.lock"} }},
		"a ref that climbs":    {"repo.ref", func(s *events.JobSpec, _ int) { s.Repo = &events.JobRepo{Ref: "refs/../x"} }},
		"an artifact's name":   {"artifacts.0.name", artifact(func(a *events.JobArtifactSpec) { a.Name = "a b" })},
		"an artifact's when":   {"artifacts.0.when", artifact(func(a *events.JobArtifactSpec) { a.When = "never" })},
		"no paths":             {"artifacts.0.paths", artifact(func(a *events.JobArtifactSpec) { a.Paths = nil })},
		"a path that climbs":   {"artifacts.0.paths", artifact(func(a *events.JobArtifactSpec) { a.Paths = []string{"a/../../b"} })},
		"a path from the root": {"artifacts.0.paths", artifact(func(a *events.JobArtifactSpec) { a.Paths = []string{"/etc/passwd"} })},
		"a pattern":            {"artifacts.0.paths", artifact(func(a *events.JobArtifactSpec) { a.Paths = []string{"a["} })},
	} {
		s := events.JobSpec{Name: "tests", Steps: []events.JobStep{{Run: "true"}}}
		c.set(&s, 0)
		_, err := CheckJob(s)
		require.NotNil(t, fault.As(err), name)
		require.Contains(t, fault.As(err).Details, c.field, name)
	}
}

func TestRequirementIsMet(t *testing.T) {
	r := events.JobRequires{Labels: []string{"os=linux"}, AnyOf: [][]string{{"gpu=a100"}, {"gpu=h100", "big=yes"}}}
	for name, c := range map[string]struct {
		labels, exclusive []string
		want              bool
	}{
		"all of one set":            {[]string{"os=linux", "gpu=a100"}, nil, true},
		"half of a set":             {[]string{"os=linux", "gpu=h100"}, nil, false},
		"no set":                    {[]string{"os=linux"}, nil, false},
		"another system":            {[]string{"os=mac", "gpu=a100"}, nil, false},
		"kept for what is asked":    {[]string{"os=linux", "gpu=a100"}, []string{"gpu=a100"}, true},
		"kept for what is not said": {[]string{"os=linux", "gpu=a100", "pool=release"}, []string{"pool=release"}, false},
	} {
		require.Equal(t, c.want, r.Met(c.labels, c.exclusive), name)
	}
	same := events.JobRequires{Labels: []string{"os=linux", "os=linux"},
		AnyOf: [][]string{{"big=yes", "gpu=h100"}, {"gpu=a100"}, {"gpu=a100"}}}
	require.Equal(t, r.Key(), same.Key(), "what asks for the same has one key")
	require.NotEqual(t, r.Key(), events.JobRequires{Labels: r.Labels}.Key())
}
