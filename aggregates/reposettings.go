package aggregates

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"svc/events"
	"svc/input"
)

// Limits of a repository's settings.
const (
	maxRequiredJobs   = 20
	maxProtectedPaths = 100
	maxProtectedPath  = 200 // bytes
	maxActiveRuns     = 100
	maxRounds         = 10
	maxRunCents       = 100_000_000
	maxRunFiles       = 10_000
	maxRunLines       = 1_000_000
	maxSettings       = 256 << 10 // bytes of their stored form
)

// CheckRepoSettings returns the settings with defaults filled in, or an error that lists what is wrong with each
// field. prefix begins the names of the fields.
func CheckRepoSettings(prefix string, host events.HostKind, s events.RepoSettings) (events.RepoSettings, error) {
	c := &jobCheck{wrong: map[string][]string{}}
	rule := input.BranchRule(s.Branch)
	c.must(rule == "", prefix+"branch", "%s", rule)
	c.must(!input.HasToken(s.Branch), prefix+"branch", "not hold a service token")
	s.Implementer = c.implementer(prefix+"implementer.", s.Implementer)
	s.RequiredJobs = c.requiredJobs(prefix+"requiredJobs", s.RequiredJobs)
	s.ProtectedPaths = append([]string{}, s.ProtectedPaths...)
	c.protectedPaths(prefix+"protectedPaths", s.ProtectedPaths)
	s.Landing = cmp.Or(s.Landing, events.LandByHost)
	if host == events.HostGit {
		s.Landing = events.LandExactly // there is nothing else that could merge
	}
	c.oneOf(string(s.Landing), prefix+"landing", string(events.LandByHost), string(events.LandExactly))
	s.Method = cmp.Or(s.Method, events.MergeCommit)
	c.oneOf(string(s.Method), prefix+"method", string(events.MergeCommit), string(events.MergeSquash))
	s.MaxActive, s.Rounds = cmp.Or(s.MaxActive, 5), cmp.Or(s.Rounds, 3)
	s.MaxFiles, s.MaxLines = cmp.Or(s.MaxFiles, 50), cmp.Or(s.MaxLines, 1500)
	c.between(s.MaxActive, 1, maxActiveRuns, prefix+"maxActive")
	c.between(s.Rounds, 1, maxRounds, prefix+"rounds")
	c.must(s.Cents >= 0 && s.Cents <= maxRunCents, prefix+"cents", "be between 0 and %d", maxRunCents)
	c.between(s.MaxFiles, 1, maxRunFiles, prefix+"maxFiles")
	c.between(s.MaxLines, 1, maxRunLines, prefix+"maxLines")
	text, err := json.Marshal(s)
	c.must(err == nil && len(text) <= maxSettings, prefix+"requiredJobs", "be smaller: all settings may have %d KiB", maxSettings>>10)
	return s, c.err()
}

func (c *jobCheck) implementer(field string, i events.Implementer) events.Implementer {
	i.Kind = cmp.Or(i.Kind, events.ImplementerPatch)
	switch i.Kind {
	case events.ImplementerPatch:
		given := i.Run != "" || i.RunSeconds != 0 || i.IdleSeconds != 0 || len(i.Secrets)+len(i.Labels) > 0 ||
			i.Sandbox != events.JobSandbox{}
		c.must(!given, field+"kind", "be command if other fields are given")
		return events.Implementer{Kind: i.Kind}
	case events.ImplementerCommand:
	default:
		c.oneOf(string(i.Kind), field+"kind", string(events.ImplementerPatch), string(events.ImplementerCommand))
		return i
	}
	job := events.RequiredJob{
		Name: "implement", Steps: []events.JobStep{{Name: "implement", Run: i.Run}},
		Labels: i.Labels, Sandbox: i.Sandbox, RunSeconds: i.RunSeconds, Secrets: i.Secrets,
	}
	job = c.requiredJob(field, job)
	if wrong, is := c.wrong[field+"steps.0.run"]; is {
		c.wrong[field+"run"] = wrong
		delete(c.wrong, field+"steps.0.run")
	}
	c.between(i.IdleSeconds, 0, day, field+"idleSeconds")
	i.Labels, i.Sandbox, i.RunSeconds = job.Labels, job.Sandbox, job.RunSeconds
	return i
}

func (c *jobCheck) requiredJobs(field string, list []events.RequiredJob) []events.RequiredJob {
	c.must(len(list) <= maxRequiredJobs, field, "be %d at most", maxRequiredJobs)
	checked, names := []events.RequiredJob{}, map[string]bool{}
	for i, job := range list {
		at := fmt.Sprintf("%s.%d.", field, i)
		job = c.requiredJob(at, job)
		c.must(!names[input.Lower(job.Name)], at+"name", "be another than those before it")
		names[input.Lower(job.Name)] = true
		checked = append(checked, job)
	}
	return checked
}

// requiredJobFields renames the fields of a job's spec that a required job has under another name.
var requiredJobFields = strings.NewReplacer("requires.labels", "labels", "timeouts.runSeconds", "runSeconds")

// requiredJob checks a job by the rules for all jobs. field begins the names of its fields.
func (c *jobCheck) requiredJob(field string, j events.RequiredJob) events.RequiredJob {
	of := &jobCheck{wrong: map[string][]string{}}
	spec := events.JobSpec{
		Name: j.Name, Steps: j.Steps, Requires: events.JobRequires{Labels: j.Labels}, Sandbox: j.Sandbox, Secrets: j.Secrets,
		Timeouts: events.JobTimeouts{RunSeconds: j.RunSeconds},
	}
	of.spec(&spec)
	for name, wrong := range of.wrong {
		c.wrong[field+requiredJobFields.Replace(name)] = wrong
	}
	j.Name, j.Steps, j.Labels, j.Sandbox, j.RunSeconds = spec.Name, spec.Steps, spec.Requires.Labels, spec.Sandbox, spec.Timeouts.RunSeconds
	return j
}

func (c *jobCheck) protectedPaths(field string, list []string) {
	c.must(len(list) <= maxProtectedPaths, field, "be %d at most", maxProtectedPaths)
	for _, p := range list {
		c.text(field, p, maxProtectedPath)
		_, err := path.Match(p, "")
		inside := p != "" && !path.IsAbs(p) && !slices.Contains(strings.Split(p, "/"), "..") && !strings.Contains(p, `\`)
		c.must(inside && err == nil, field, "be patterns of paths in the repository, such as deploy/**")
	}
}
