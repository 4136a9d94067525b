package aggregates

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// Limits of a job's spec.
const (
	maxSteps       = events.MaxJobSteps
	maxScript      = 64 << 10 // bytes per step
	maxEnv         = 100      // variables per step
	maxEnvText     = 32 << 10 // bytes per variable
	maxJobLabels   = 16
	maxLabelSets   = 8
	maxSecrets     = 50
	maxArtifacts   = 20
	maxPaths       = 20
	maxAnnotations = 20
	maxAttempts    = 10
	maxConcurrent  = 100

	day = 24 * 60 * 60 // seconds
)

// MaxSecretBytes limits the total size of a job's secrets. Whatever they contain, so much
// fits into one message to the runner.
const MaxSecretBytes = 512 << 10

// The forms of texts in a spec.
var (
	SecretName = input.Form{
		Pattern: regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,63}$`),
		Rule:    "have up to 64 capital letters, digits and underscores, and not start with a digit",
	}
	envName = input.Form{
		Pattern: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`),
		Rule:    "have up to 100 letters, digits and underscores, and not start with a digit",
	}
	artifactName = input.Form{
		Pattern: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`),
		Rule:    "have up to 100 letters, digits, dots, underscores and hyphens",
	}
	commitID = input.Form{
		Pattern: regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`),
		Rule:    "have 40 or 64 hexadecimal digits",
	}
	digest = input.Form{
		Pattern: regexp.MustCompile(`^[0-9a-f]{64}$`),
		Rule:    "have 64 hexadecimal digits",
	}
)

// CheckJob returns the spec with defaults filled in, or an error that lists what is wrong
// with each field.
func CheckJob(s events.JobSpec) (events.JobSpec, error) {
	c := &jobCheck{wrong: map[string][]string{}}
	c.spec(&s)
	if len(c.wrong) > 0 {
		return s, fault.Fields(c.wrong)
	}
	return s, nil
}

// A jobCheck collects what is wrong with each field.
type jobCheck struct{ wrong map[string][]string }

func (c *jobCheck) must(ok bool, field, format string, args ...any) {
	if !ok {
		c.wrong[field] = append(c.wrong[field], fmt.Sprintf("must "+format, args...))
	}
}

func (c *jobCheck) matches(f input.Form, field, text string) {
	c.must(f.Fits(text), field, "%s", f.Rule)
	c.must(!input.HasToken(text), field, "not hold a service token")
}

// text checks the rules for all texts: at most so many bytes, valid, no NUL, no service
// token.
func (c *jobCheck) text(field, text string, most int) {
	c.must(len(text) <= most, field, "have %d bytes at most", most)
	c.must(utf8.ValidString(text) && !strings.ContainsRune(text, 0), field, "be text without NUL")
	c.must(!input.HasToken(text), field, "not hold a service token")
}

func (c *jobCheck) between(n, least, most int, field string) {
	c.must(n >= least && n <= most, field, "be between %d and %d", least, most)
}

func (c *jobCheck) oneOf(value string, field string, of ...string) {
	c.must(slices.Contains(of, value), field, "be one of %s", strings.Join(of, ", "))
}

func (c *jobCheck) spec(s *events.JobSpec) {
	name, err := input.Name("name", s.Name)
	c.must(err == nil, "name", "have 1 to %d characters, none of them invisible, and not hold a service token", input.MaxName)
	s.Name = name
	if s.Repo != nil {
		repo := *s.Repo
		repo.Commit = strings.ToLower(repo.Commit)
		s.Repo = &repo
		c.repo(repo)
	}
	c.must(len(s.Steps) >= 1 && len(s.Steps) <= maxSteps, "steps", "have 1 to %d items", maxSteps)
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		c.step(&s.Steps[i], i)
	}
	c.requires(s.Requires)
	s.Requires = s.Requires.Canonical()
	c.sandbox(&s.Sandbox)
	c.must(len(s.Secrets) <= maxSecrets, "secrets", "be %d at most", maxSecrets)
	for _, name := range s.Secrets {
		c.matches(SecretName, "secrets", name)
	}
	c.collect(s)
	c.artifacts(s)
	s.Priority = cmp.Or(s.Priority, events.NormalPriority)
	c.oneOf(string(s.Priority), "priority", "low", "normal", "high")
	c.limits(s)
	c.must(len(s.Annotations) <= maxAnnotations, "annotations", "be %d at most", maxAnnotations)
	for key, text := range s.Annotations {
		c.matches(artifactName, "annotations", key)
		c.text("annotations", text, 500)
	}
}

func (c *jobCheck) repo(r events.JobRepo) {
	if r.Commit != "" {
		c.matches(commitID, "repo.commit", r.Commit)
	}
	if r.Ref != "" {
		rule := input.RefRule(r.Ref)
		c.must(rule == "", "repo.ref", "%s", rule)
		c.must(!input.HasToken(r.Ref), "repo.ref", "not hold a service token")
	}
	c.must(r.Commit != "" || r.Ref != "", "repo", "name a commit or a ref")
}

func (c *jobCheck) step(s *events.JobStep, i int) {
	field := fmt.Sprintf("steps.%d.", i)
	name, err := input.Name("name", cmp.Or(s.Name, fmt.Sprintf("Step %d", i+1)))
	c.must(err == nil, field+"name", "have 1 to %d characters, none of them invisible, and not hold a service token", input.MaxName)
	s.Name = name
	c.must(strings.TrimSpace(s.Run) != "", field+"run", "say what to run")
	c.text(field+"run", s.Run, maxScript)
	s.Shell = cmp.Or(s.Shell, "sh")
	c.oneOf(s.Shell, field+"shell", "sh", "bash")
	c.must(len(s.Env) <= maxEnv, field+"env", "be %d at most", maxEnv)
	for key, text := range s.Env {
		c.matches(envName, field+"env", key)
		c.text(field+"env", text, maxEnvText)
	}
	c.between(s.TimeoutSeconds, 0, day, field+"timeoutSeconds")
}

func (c *jobCheck) requires(r events.JobRequires) {
	c.labels(r.Labels, "requires.labels")
	c.must(len(r.AnyOf) <= maxLabelSets, "requires.anyOf", "be %d sets at most", maxLabelSets)
	for _, set := range r.AnyOf {
		c.must(len(set) > 0, "requires.anyOf", "not hold an empty set")
		c.labels(set, "requires.anyOf")
	}
}

func (c *jobCheck) labels(list []string, field string) {
	c.must(len(list) <= maxJobLabels, field, "be %d at most", maxJobLabels)
	for _, l := range list {
		c.matches(input.RequiredLabel, field, l)
	}
}

func (c *jobCheck) sandbox(s *events.JobSandbox) {
	s.Kind, s.Network = cmp.Or(s.Kind, "bubblewrap"), cmp.Or(s.Network, "none")
	c.oneOf(s.Kind, "sandbox.kind", "none", "bubblewrap")
	if s.Kind == "none" {
		s.Network = "host" // without a sandbox nothing can restrict the network
	}
	c.oneOf(s.Network, "sandbox.network", "none", "host")
	c.between(s.MemoryMiB, 0, 1<<20, "sandbox.memoryMiB")
	c.must(s.CPUs >= 0 && s.CPUs <= 1024, "sandbox.cpus", "be between 0 and 1024")
}

// OutArtifact is the artifact of a job whose changes are collected: all that is in its output folder.
const OutArtifact = "svc-out"

// collect gives a job whose changes are collected the artifact that has them.
func (c *jobCheck) collect(s *events.JobSpec) {
	if s.InputSHA256 != "" {
		c.matches(digest, "inputSha256", s.InputSHA256)
	}
	if !s.Collect {
		return
	}
	c.must(s.Repo != nil && s.Repo.Commit != "", "collect", "have a commit to compare with")
	if !slices.ContainsFunc(s.Artifacts, func(a events.JobArtifactSpec) bool { return a.Name == OutArtifact }) {
		s.Artifacts = append(slices.Clone(s.Artifacts), events.JobArtifactSpec{Name: OutArtifact, Paths: []string{".svc-out/**"}, When: "always"})
	}
}

func (c *jobCheck) artifacts(s *events.JobSpec) {
	c.must(len(s.Artifacts) <= maxArtifacts, "artifacts", "be %d at most", maxArtifacts)
	s.Artifacts = slices.Clone(s.Artifacts)
	names := map[string]bool{}
	for i := range s.Artifacts {
		a, field := &s.Artifacts[i], fmt.Sprintf("artifacts.%d.", i)
		a.When = cmp.Or(a.When, "success")
		c.matches(artifactName, field+"name", a.Name)
		c.must(!names[input.Lower(a.Name)], field+"name", "be another than those before it")
		names[input.Lower(a.Name)] = true
		c.oneOf(a.When, field+"when", "success", "failure", "always")
		c.must(len(a.Paths) >= 1 && len(a.Paths) <= maxPaths, field+"paths", "have 1 to %d items", maxPaths)
		for _, p := range a.Paths {
			c.text(field+"paths", p, 400)
			inside := p != "" && !path.IsAbs(p) && !slices.Contains(strings.Split(p, "/"), "..") && !strings.Contains(p, `\`)
			c.must(inside, field+"paths", "stay in the working directory")
			_, err := path.Match(p, "")
			c.must(err == nil, field+"paths", "be a pattern such as dist/**")
		}
	}
}

func (c *jobCheck) limits(s *events.JobSpec) {
	t, r := &s.Timeouts, &s.Retry
	t.QueueSeconds, t.RunSeconds = cmp.Or(t.QueueSeconds, day), cmp.Or(t.RunSeconds, 3600)
	c.between(t.QueueSeconds, 1, 7*day, "timeouts.queueSeconds")
	c.between(t.RunSeconds, 1, day, "timeouts.runSeconds")
	c.between(t.CancelGraceSeconds, 0, 600, "timeouts.cancelGraceSeconds")
	c.between(t.IdleSeconds, 0, day, "timeouts.idleSeconds")
	r.MaxAttempts = cmp.Or(r.MaxAttempts, 3)
	if r.On == nil {
		r.On = []string{"lost", "infra"}
	}
	c.between(r.MaxAttempts, 1, maxAttempts, "retry.maxAttempts")
	for _, why := range r.On {
		c.oneOf(why, "retry.on", "lost", "infra")
	}
	if s.Concurrency != nil {
		s.Concurrency.Limit = cmp.Or(s.Concurrency.Limit, 1)
		c.must(s.Concurrency.Key != "", "concurrency.key", "be there")
		c.text("concurrency.key", s.Concurrency.Key, 200)
		c.between(s.Concurrency.Limit, 1, maxConcurrent, "concurrency.limit")
	}
}
