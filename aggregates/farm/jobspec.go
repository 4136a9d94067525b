package farm

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"svc/events"
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
	c := &jobCheck{}
	c.spec(&s)
	return s, c.Err()
}

type jobCheck struct{ input.Check }

func (c *jobCheck) spec(s *events.JobSpec) {
	name, err := input.Name("name", s.Name)
	c.Must(err == nil, "name", "have 1 to %d characters, none of them invisible, and not hold a service token", input.MaxName)
	s.Name = name
	if s.Repo != nil {
		repo := *s.Repo
		repo.Commit = strings.ToLower(repo.Commit)
		s.Repo = &repo
		c.repo(repo)
	}
	c.Must(len(s.Steps) >= 1 && len(s.Steps) <= maxSteps, "steps", "have 1 to %d items", maxSteps)
	s.Steps = slices.Clone(s.Steps)
	for i := range s.Steps {
		c.step(&s.Steps[i], i)
	}
	c.requires(s.Requires)
	s.Requires = s.Requires.Canonical()
	c.sandbox(&s.Sandbox)
	c.Must(len(s.Secrets) <= maxSecrets, "secrets", "be %d at most", maxSecrets)
	for _, name := range s.Secrets {
		c.Matches(SecretName, "secrets", name)
	}
	c.collect(s)
	c.artifacts(s)
	s.Priority = cmp.Or(s.Priority, events.NormalPriority)
	c.OneOf(string(s.Priority), "priority", "low", "normal", "high")
	c.limits(s)
	c.Must(len(s.Annotations) <= maxAnnotations, "annotations", "be %d at most", maxAnnotations)
	for key, text := range s.Annotations {
		c.Matches(artifactName, "annotations", key)
		c.Text("annotations", text, 500)
	}
}

func (c *jobCheck) repo(r events.JobRepo) {
	if r.Commit != "" {
		c.Matches(commitID, "repo.commit", r.Commit)
	}
	if r.Ref != "" {
		rule := input.RefRule(r.Ref)
		c.Must(rule == "", "repo.ref", "%s", rule)
		c.Must(!input.HasToken(r.Ref), "repo.ref", "not hold a service token")
	}
	c.Must(r.Commit != "" || r.Ref != "", "repo", "name a commit or a ref")
}

func (c *jobCheck) step(s *events.JobStep, i int) {
	field := fmt.Sprintf("steps.%d.", i)
	name, err := input.Name("name", cmp.Or(s.Name, fmt.Sprintf("Step %d", i+1)))
	c.Must(err == nil, field+"name", "have 1 to %d characters, none of them invisible, and not hold a service token", input.MaxName)
	s.Name = name
	c.Must(strings.TrimSpace(s.Run) != "", field+"run", "say what to run")
	c.Text(field+"run", s.Run, maxScript)
	s.Shell = cmp.Or(s.Shell, "sh")
	c.OneOf(s.Shell, field+"shell", "sh", "bash")
	c.Must(len(s.Env) <= maxEnv, field+"env", "be %d at most", maxEnv)
	for key, text := range s.Env {
		c.Matches(envName, field+"env", key)
		c.Text(field+"env", text, maxEnvText)
	}
	c.Between(s.TimeoutSeconds, 0, day, field+"timeoutSeconds")
}

func (c *jobCheck) requires(r events.JobRequires) {
	c.labels(r.Labels, "requires.labels")
	c.Must(len(r.AnyOf) <= maxLabelSets, "requires.anyOf", "be %d sets at most", maxLabelSets)
	for _, set := range r.AnyOf {
		c.Must(len(set) > 0, "requires.anyOf", "not hold an empty set")
		c.labels(set, "requires.anyOf")
	}
}

func (c *jobCheck) labels(list []string, field string) {
	c.Must(len(list) <= maxJobLabels, field, "be %d at most", maxJobLabels)
	for _, l := range list {
		c.Matches(input.RequiredLabel, field, l)
	}
}

func (c *jobCheck) sandbox(s *events.JobSandbox) {
	s.Kind, s.Network = cmp.Or(s.Kind, "bubblewrap"), cmp.Or(s.Network, "none")
	c.OneOf(s.Kind, "sandbox.kind", "none", "bubblewrap")
	if s.Kind == "none" {
		s.Network = "host" // without a sandbox nothing can restrict the network
	}
	c.OneOf(s.Network, "sandbox.network", "none", "host")
	c.Between(s.MemoryMiB, 0, 1<<20, "sandbox.memoryMiB")
	c.Must(s.CPUs >= 0 && s.CPUs <= 1024, "sandbox.cpus", "be between 0 and 1024")
}

// OutArtifact is the artifact of a job whose changes are collected: all that is in its output folder.
const OutArtifact = "svc-out"

// collect gives a job whose changes are collected the artifact that has them.
func (c *jobCheck) collect(s *events.JobSpec) {
	if s.InputSHA256 != "" {
		c.Matches(digest, "inputSha256", s.InputSHA256)
	}
	if !s.Collect {
		return
	}
	c.Must(s.Repo != nil && s.Repo.Commit != "", "collect", "have a commit to compare with")
	if !slices.ContainsFunc(s.Artifacts, func(a events.JobArtifactSpec) bool { return a.Name == OutArtifact }) {
		s.Artifacts = append(slices.Clone(s.Artifacts), events.JobArtifactSpec{Name: OutArtifact, Paths: []string{".svc-out/**"}, When: "always"})
	}
}

func (c *jobCheck) artifacts(s *events.JobSpec) {
	c.Must(len(s.Artifacts) <= maxArtifacts, "artifacts", "be %d at most", maxArtifacts)
	s.Artifacts = slices.Clone(s.Artifacts)
	names := map[string]bool{}
	for i := range s.Artifacts {
		a, field := &s.Artifacts[i], fmt.Sprintf("artifacts.%d.", i)
		a.When = cmp.Or(a.When, "success")
		c.Matches(artifactName, field+"name", a.Name)
		c.Must(!names[input.Lower(a.Name)], field+"name", "be another than those before it")
		names[input.Lower(a.Name)] = true
		c.OneOf(a.When, field+"when", "success", "failure", "always")
		c.Must(len(a.Paths) >= 1 && len(a.Paths) <= maxPaths, field+"paths", "have 1 to %d items", maxPaths)
		for _, p := range a.Paths {
			c.Text(field+"paths", p, 400)
			inside := p != "" && !path.IsAbs(p) && !slices.Contains(strings.Split(p, "/"), "..") && !strings.Contains(p, `\`)
			c.Must(inside, field+"paths", "stay in the working directory")
			_, err := path.Match(p, "")
			c.Must(err == nil, field+"paths", "be a pattern such as dist/**")
		}
	}
}

func (c *jobCheck) limits(s *events.JobSpec) {
	t, r := &s.Timeouts, &s.Retry
	t.QueueSeconds, t.RunSeconds = cmp.Or(t.QueueSeconds, day), cmp.Or(t.RunSeconds, 3600)
	c.Between(t.QueueSeconds, 1, 7*day, "timeouts.queueSeconds")
	c.Between(t.RunSeconds, 1, day, "timeouts.runSeconds")
	c.Between(t.CancelGraceSeconds, 0, 600, "timeouts.cancelGraceSeconds")
	c.Between(t.IdleSeconds, 0, day, "timeouts.idleSeconds")
	r.MaxAttempts = cmp.Or(r.MaxAttempts, 3)
	if r.On == nil {
		r.On = []string{"lost", "infra"}
	}
	c.Between(r.MaxAttempts, 1, maxAttempts, "retry.maxAttempts")
	for _, why := range r.On {
		c.OneOf(why, "retry.on", "lost", "infra")
	}
	if s.Concurrency != nil {
		s.Concurrency.Limit = cmp.Or(s.Concurrency.Limit, 1)
		c.Must(s.Concurrency.Key != "", "concurrency.key", "be there")
		c.Text("concurrency.key", s.Concurrency.Key, 200)
		c.Between(s.Concurrency.Limit, 1, maxConcurrent, "concurrency.limit")
	}
}
