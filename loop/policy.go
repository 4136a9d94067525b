package loop

import (
	"context"
	"encoding/json"
	"slices"

	"svc/commands"
	"svc/engine/client"
	"svc/events"
	"svc/fault"
	"svc/lru"
)

// policies caches policies by their hash, which the log has.
type policies struct {
	cache *lru.Cache[string, client.Policy]
}

// cachedPolicies is how many policies a process keeps.
const cachedPolicies = 1000

func newPolicies() policies {
	return policies{lru.New[string, client.Policy](cachedPolicies)}
}

// policyOf returns what the settings of a repository ask for.
func policyOf(s events.RepoSettings) client.Policy {
	jobs, _ := json.Marshal(slices.Concat([]events.RequiredJob{}, s.RequiredJobs)) // always encodes
	return client.Policy{
		RequiredJobs: jobs, ProtectedPaths: slices.Concat([]string{}, s.ProtectedPaths), MayAllowOnce: s.MayAllowOnce,
		MaxFiles: s.MaxFiles, MaxLines: s.MaxLines, Rounds: s.Rounds, Cents: s.Cents,
	}
}

// baseRead returns the fact that a base was read, and keeps its policy.
func (r *runner) baseRead(branch, commit, sha string, p client.Policy) (events.RunBaseRead, error) {
	jobs, err := requiredJobs(p)
	if err != nil {
		return events.RunBaseRead{}, err
	}
	e := events.RunBaseRead{Branch: branch, Commit: commit, Policy: sha, RequiredJobs: []string{}, Rounds: p.Rounds, Cents: p.Cents}
	for _, j := range jobs {
		e.RequiredJobs = append(e.RequiredJobs, j.Name)
	}
	r.policies.cache.Add(r.policyKey(sha), p)
	return e, nil
}

func (r *runner) policyKey(sha string) string { return r.workspace.String() + "/" + sha }

func requiredJobs(p client.Policy) (jobs []events.RequiredJob, err error) {
	err = json.Unmarshal(p.RequiredJobs, &jobs)
	return jobs, fault.Wrap(err, "decode required jobs")
}

// policy returns the policy that is in force for the run. If this process does not have it, it is read again
// from the base. Then it is another one if the settings have changed since, which is recorded.
func (r *runner) policy(ctx context.Context) (client.Policy, string, error) {
	sha := r.p.Base.Policy
	if p, ok := r.policies.cache.Get(r.policyKey(sha)); ok {
		return p, sha, nil
	}
	out, err := do[client.IssueInput, client.IssueResult](ctx, r, client.StepIssue, client.IssueInput{
		Branch: r.p.Base.Branch, Commit: r.p.Base.Commit, Policy: policyOf(r.repo.Settings),
	})
	if err != nil {
		return client.Policy{}, "", err
	}
	base, err := r.baseRead(r.p.Base.Branch, out.Base, out.SHA, out.Policy)
	if err != nil {
		return client.Policy{}, "", err
	}
	if out.SHA != sha {
		if err := r.record(ctx, base); err != nil {
			return client.Policy{}, "", err
		}
		return client.Policy{}, "", commands.ErrRunMoved // it is decided again, by the new policy
	}
	return out.Policy, sha, nil
}
