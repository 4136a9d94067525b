package aggregates

import (
	"maps"
	"slices"
	"time"

	"svc/events"
)

// A Progress is what is known of a run: the fold of its stream. What moves the run decides by it.
type Progress struct {
	Run     events.ID
	Version int // of the run's stream
	Repo    events.Repo
	Issue   int
	Title   string // as it was queued
	Body    string // of an issue that exists only here
	RetryOf events.ID
	Queuer  events.Actor // who queued the issue

	Status         events.RunStatus
	Stage          events.Stage
	StageOver      bool // the stage has succeeded or failed
	StageSucceeded bool
	Attempts       map[events.Stage]int

	Started   *events.RunStarted
	IssueRead *events.RunIssueRead
	Base      *events.RunBaseRead
	Facts     []string // newest
	Corrected bool     // a person corrected or confirmed the facts
	Plan      *events.RunPlanRecorded
	Budget    *events.RunBudgetSet
	Estimated []events.EstimateMoment

	Branch     string
	Head       string                       // newest commit of the branch
	Tree       string                       // of Head
	Changed    events.ChangeTotal           // from Base to Head
	HeadBy     string                       // who pushed it: events.PushedByLoop or PushedByPerson
	HeadRound  int                          // how often the run had entered the stage Implementing when it was pushed
	Repeats    int                          // the round that made the same tree as Head; 0 if none did
	Rebased    bool                         // Base is newer than Head: the work has to be done again on it
	Guardrails *events.RunGuardrailsChecked // of Head; nil if it was not checked
	AllowedAt  string                       // the head for which a person allowed protected paths once, while the policy is the same
	Jobs       []RunJob                     // in the order in which they were requested
	Review     *events.RunReviewed          // of Head
	Findings   []string                     // why the run implements again, oldest first: failed builds, reviews, notes of people

	PullRequest int
	Decision    *OpenDecision
	Approved    string    // the commit that a person approved, while the approval is valid
	ApprovedBy  events.ID // of that decision
	Approver    events.Actor
	Lane        bool // it is the run's turn to merge
	Candidate   *events.RunMergeCandidate
	Postponed   int // attempts to merge Approved that did not
	Attempted   bool
	Stop        *events.RunStopRequested
	Merged      *events.RunMerged
	Tidied      *events.RunTidied

	Wait        *events.RunWaiting
	Cents       int64 // known cost so far
	CostUnknown bool  // nobody knows what an implementer cost
}

// What guardrails and reviews conclude.
const (
	GuardrailsClean   = "clean"
	GuardrailsBlocked = "blocked"
	GuardrailsAllowed = "allowed_once"

	ReviewPass     = "pass"
	ReviewBlocking = "blocking"
)

// An OpenDecision is what a run asks a person.
type OpenDecision struct {
	ID   events.ID
	Kind events.DecisionKind
	Head string
}

// A RunJob is a job that a run requested. State is "" until it is settled.
type RunJob struct {
	events.RunJobRequested
	Round    int  // how often the run had entered the stage Implementing
	Asked    bool // its implementer asked people for a fact
	Away     bool // its implementer was not available
	State    events.JobState
	Reason   string
	ExitCode *int
	Failure  string
}

// Over reports whether the run has ended.
func (p *Progress) Over() bool { return !p.Status.Active() }

// Round returns how often the run has entered the stage Implementing.
func (p *Progress) Round() int { return p.Attempts[events.StageImplementing] }

// Guarded reports whether the guardrails hold on the head under the policy in force: they were clean,
// or a person has allowed once what they found.
func (p *Progress) Guarded() bool {
	g := p.Guardrails
	return g != nil && p.Base != nil && g.Head == p.Head && g.Policy == p.Base.Policy &&
		(g.Status == GuardrailsClean || g.Status == GuardrailsAllowed)
}

// Reviewed reports whether the head passed its self-review.
func (p *Progress) Reviewed() bool {
	return p.Review != nil && p.Review.Head == p.Head && p.Review.Verdict == ReviewPass
}

// Built reports whether the head passed every required job.
func (p *Progress) Built() bool { return p.Head != "" && p.passed(events.JobRequired, p.Head) }

// CandidateBuilt reports whether the tree of the merge candidate passed every required job: as that of
// the head, or by jobs on the candidate itself.
func (p *Progress) CandidateBuilt() bool {
	switch c := p.Candidate; {
	case c == nil:
		return false
	case c.Tree == p.Tree:
		return p.Built()
	default:
		return p.passed(events.JobLane, c.Commit)
	}
}

// Mergeable reports whether the head is what a person may be asked to approve: it keeps the guardrails,
// and passed the required jobs and its review.
func (p *Progress) Mergeable() bool { return p.Guarded() && p.Reviewed() && p.Built() }

// passed reports whether the newest job for a purpose succeeded on a commit, for each name that is required.
func (p *Progress) passed(purpose events.JobPurpose, commit string) bool {
	if p.Base == nil {
		return false
	}
	return !slices.ContainsFunc(p.Base.RequiredJobs, func(name string) bool {
		j := p.Newest(purpose, name, commit)
		return j == nil || j.State != events.JobStateSucceeded
	})
}

// Newest returns the newest job with a name that the run requested for a purpose and a commit, or nil.
func (p *Progress) Newest(purpose events.JobPurpose, name, commit string) *RunJob {
	for i := range slices.Backward(p.Jobs) {
		if j := &p.Jobs[i]; j.Purpose == purpose && j.Name == name && j.Head == commit {
			return j
		}
	}
	return nil
}

// QueuedAt returns when the run's id was made, to the millisecond.
func (p *Progress) QueuedAt() time.Time { return p.Run.Time() }

// clone returns a deep copy.
func (p *Progress) clone() Progress {
	c := *p
	c.Attempts, c.Facts, c.Findings = maps.Clone(p.Attempts), slices.Clone(p.Facts), slices.Clone(p.Findings)
	c.Jobs = slices.Clone(p.Jobs)
	for i := range c.Jobs {
		c.Jobs[i].ExitCode = cloned(c.Jobs[i].ExitCode)
	}
	c.Started, c.Budget, c.Decision, c.Candidate = cloned(p.Started), cloned(p.Budget), cloned(p.Decision), cloned(p.Candidate)
	c.Stop, c.Merged, c.Tidied, c.Wait = cloned(p.Stop), cloned(p.Merged), cloned(p.Tidied), cloned(p.Wait)
	if c.IssueRead = cloned(p.IssueRead); c.IssueRead != nil {
		c.IssueRead.Labels = slices.Clone(p.IssueRead.Labels)
	}
	if c.Base = cloned(p.Base); c.Base != nil {
		c.Base.RequiredJobs = slices.Clone(p.Base.RequiredJobs)
	}
	if c.Plan = cloned(p.Plan); c.Plan != nil {
		c.Plan.Steps, c.Plan.Files = slices.Clone(p.Plan.Steps), slices.Clone(p.Plan.Files)
	}
	if c.Review = cloned(p.Review); c.Review != nil {
		c.Review.Findings = slices.Clone(p.Review.Findings)
	}
	if c.Guardrails = cloned(p.Guardrails); c.Guardrails != nil {
		c.Guardrails.Checks = slices.Clone(p.Guardrails.Checks)
		for i := range c.Guardrails.Checks {
			c.Guardrails.Checks[i].Findings = slices.Clone(c.Guardrails.Checks[i].Findings)
		}
	}
	return c
}

// cloned returns a pointer to a copy of what p points to.
func cloned[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// Spent reports whether the run has used up its money. All of it counts as used if nobody knows what a part of the work cost.
func (p *Progress) Spent() bool {
	return p.Budget != nil && p.Budget.Cents > 0 && (p.CostUnknown || p.Cents >= p.Budget.Cents)
}
