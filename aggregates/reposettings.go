package aggregates

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"svc/aggregates/farm"
	"svc/events"
	"svc/fault"
	"svc/input"
)

// Limits of a repository's settings.
const (
	maxRequiredJobs   = 20
	maxProtectedPaths = 100
	maxProtectedPath  = 200 // bytes
	maxActiveRuns     = 100
	maxRounds         = 10
	maxLabel          = 100 // bytes
	maxRunCents       = 100_000_000
	maxTokenPrice     = 1_000_000 // cents for a million tokens
	maxRunFiles       = 10_000
	maxRunLines       = 1_000_000
	maxSettings       = 256 << 10 // bytes of their stored form
)

// CheckRepoSettings returns the settings with defaults filled in, or an error that lists what is wrong with each
// field. prefix begins the names of the fields.
func CheckRepoSettings(prefix string, host events.HostKind, s events.RepoSettings) (events.RepoSettings, error) {
	c := &repoCheck{}
	rule := input.BranchRule(s.Branch)
	c.Must(rule == "", prefix+"branch", "%s", rule)
	c.Must(!input.HasToken(s.Branch), prefix+"branch", "not hold a service token")
	s.Implementer = c.implementer(prefix+"implementer.", s.Implementer)
	s.RequiredJobs = c.requiredJobs(prefix+"requiredJobs", s.RequiredJobs)
	s.ProtectedPaths = append([]string{}, s.ProtectedPaths...)
	c.protectedPaths(prefix+"protectedPaths", s.ProtectedPaths)
	s.Landing = cmp.Or(s.Landing, events.LandByHost)
	if host == events.HostGit {
		s.Landing = events.LandExactly // there is nothing else that could merge
	}
	c.OneOf(string(s.Landing), prefix+"landing", string(events.LandByHost), string(events.LandExactly))
	s.Method = cmp.Or(s.Method, events.MergeCommit)
	c.OneOf(string(s.Method), prefix+"method", string(events.MergeCommit), string(events.MergeSquash))
	s.MaxActive, s.Rounds = cmp.Or(s.MaxActive, 5), cmp.Or(s.Rounds, 3)
	s.MaxFiles, s.MaxLines = cmp.Or(s.MaxFiles, 50), cmp.Or(s.MaxLines, 1500)
	c.Between(s.MaxActive, 1, maxActiveRuns, prefix+"maxActive")
	c.Between(s.Rounds, 1, maxRounds, prefix+"rounds")
	c.Must(s.Cents >= 0 && s.Cents <= maxRunCents, prefix+"cents", "be between 0 and %d", maxRunCents)
	c.Between(s.MaxFiles, 1, maxRunFiles, prefix+"maxFiles")
	c.Between(s.MaxLines, 1, maxRunLines, prefix+"maxLines")
	c.Must(s.IssueCents >= 0 && s.IssueCents <= maxRunCents, prefix+"issueCents", "be between 0 and %d", maxRunCents)
	for name, price := range map[string]float64{"inputCents": s.Prices.Input, "outputCents": s.Prices.Output} {
		c.Must(price >= 0 && price <= maxTokenPrice, prefix+"prices."+name, "be between 0 and %d", maxTokenPrice)
	}
	c.Text(prefix+"label", s.Label, maxLabel)
	c.Must(input.CleanText(s.Label) == s.Label && !strings.Contains(s.Label, ","), prefix+"label", "be one line without commas")
	c.Must(s.Label == "" || host != events.HostGit, prefix+"label", "be empty: the host has no issues")
	c.Must(s.Label == "" || !s.ApproverNotQueue, prefix+"label",
		"be empty while whoever queued an issue may not approve its merge: only the code host knows who labels")
	text, err := json.Marshal(s)
	c.Must(err == nil && len(text) <= maxSettings, prefix+"requiredJobs", "be smaller: all settings may have %d KiB", maxSettings>>10)
	return s, c.Err()
}

func (c *repoCheck) implementer(field string, i events.Implementer) events.Implementer {
	i.Kind = cmp.Or(i.Kind, events.ImplementerPatch)
	switch i.Kind {
	case events.ImplementerPatch:
		given := i.Run != "" || i.RunSeconds != 0 || i.IdleSeconds != 0 || len(i.Secrets)+len(i.Labels)+len(i.Stages) > 0 ||
			i.Sandbox != events.JobSandbox{}
		c.Must(!given, field+"kind", "be command if other fields are given")
		return events.Implementer{Kind: i.Kind}
	case events.ImplementerCommand:
	default:
		c.OneOf(string(i.Kind), field+"kind", string(events.ImplementerPatch), string(events.ImplementerCommand))
		return i
	}
	job := events.RequiredJob{
		Name: "implement", Steps: []events.JobStep{{Name: "implement", Run: i.Run}},
		Labels: i.Labels, Sandbox: i.Sandbox, RunSeconds: i.RunSeconds, Secrets: i.Secrets,
	}
	job = c.job(field, implementerFields, job)
	const day = 24 * 60 * 60
	c.Between(i.IdleSeconds, 0, day, field+"idleSeconds")
	for n, stage := range i.Stages {
		c.OneOf(string(stage), field+"stages", string(events.JobAnalyzes), string(events.JobPlans), string(events.JobReviews))
		c.Must(!slices.Contains(i.Stages[:n], stage), field+"stages", "name each once")
	}
	i.Labels, i.Sandbox, i.RunSeconds = job.Labels, job.Sandbox, job.RunSeconds
	return i
}

func (c *repoCheck) requiredJobs(field string, list []events.RequiredJob) []events.RequiredJob {
	c.Must(len(list) <= maxRequiredJobs, field, "be %d at most", maxRequiredJobs)
	checked, names := []events.RequiredJob{}, map[string]bool{}
	for i, job := range list {
		at := fmt.Sprintf("%s.%d.", field, i)
		job = c.job(at, requiredJobFields, job)
		c.Must(!names[input.Lower(job.Name)], at+"name", "be another than those before it")
		names[input.Lower(job.Name)] = true
		checked = append(checked, job)
	}
	return checked
}

// These rename the fields of a job's spec that a required job, or an implementer, has under another name.
var (
	requiredJobFields = strings.NewReplacer("requires.labels", "labels", "timeouts.runSeconds", "runSeconds")
	implementerFields = strings.NewReplacer("requires.labels", "labels", "timeouts.runSeconds", "runSeconds", "steps.0.run", "run")
)

// job checks a job by the rules for all jobs. field begins the names of its fields.
func (c *repoCheck) job(field string, names *strings.Replacer, j events.RequiredJob) events.RequiredJob {
	spec, err := farm.CheckJob(events.JobSpec{
		Name: j.Name, Steps: j.Steps, Requires: events.JobRequires{Labels: j.Labels}, Sandbox: j.Sandbox, Secrets: j.Secrets,
		Timeouts: events.JobTimeouts{RunSeconds: j.RunSeconds},
	})
	if f := fault.As(err); f != nil {
		for name, wrong := range f.Details {
			c.Add(field+names.Replace(name), wrong.([]string)...)
		}
	}
	j.Name, j.Steps, j.Labels, j.Sandbox, j.RunSeconds = spec.Name, spec.Steps, spec.Requires.Labels, spec.Sandbox, spec.Timeouts.RunSeconds
	return j
}

func (c *repoCheck) protectedPaths(field string, list []string) {
	c.Must(len(list) <= maxProtectedPaths, field, "be %d at most", maxProtectedPaths)
	for _, p := range list {
		c.Text(field, p, maxProtectedPath)
		_, err := path.Match(p, "")
		inside := p != "" && !path.IsAbs(p) && !slices.Contains(strings.Split(p, "/"), "..") && !strings.Contains(p, `\`)
		c.Must(inside && err == nil, field, "be patterns of paths in the repository, such as deploy/**")
	}
}
