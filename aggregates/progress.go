package aggregates

import (
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

	Branch     string
	Head       string                       // newest commit of the branch
	Tree       string                       // of Head
	HeadBy     string                       // who pushed it: events.PushedByLoop or PushedByPerson
	HeadRound  int                          // how often the run had entered the stage Implementing when it was pushed
	Rebased    bool                         // Base is newer than Head: the work has to be done again on it
	Guardrails *events.RunGuardrailsChecked // of Head; nil if it was not checked
	AllowedAt  string                       // the head for which a person allowed protected paths once
	Jobs       []RunJob                     // in the order in which they were requested
	Review     *events.RunReviewed          // of Head
	Findings   []string                     // why the run implements again, oldest first: failed builds, reviews, notes of people

	PullRequest int
	Decision    *OpenDecision
	Approved    string    // the commit that a person approved, while the approval is valid
	ApprovedBy  events.ID // of that decision
	Lane        bool      // it is the run's turn to merge
	Candidate   *events.RunMergeCandidate
	Postponed   int // attempts to merge Approved that did not
	Attempted   bool
	Stop        *events.RunStopRequested
	Merged      *events.RunMerged
	Tidied      *events.RunTidied

	Wait  *events.RunWaiting
	Cents int64 // known cost so far
}

// An OpenDecision is what a run asks a person.
type OpenDecision struct {
	ID   events.ID
	Kind events.DecisionKind
	Head string
}

// A RunJob is a job that a run requested. State is "" until it is settled.
type RunJob struct {
	events.RunJobRequested
	Round    int // how often the run had entered the stage Implementing
	State    events.JobState
	Reason   string
	ExitCode *int
}

// Over reports whether the run has ended.
func (p *Progress) Over() bool { return !p.Status.Active() }

// Round returns how often the run has entered the stage Implementing.
func (p *Progress) Round() int { return p.Attempts[events.StageImplementing] }

// QueuedAt returns when the run's id was made, to the millisecond.
func (p *Progress) QueuedAt() time.Time { return p.Run.Time() }
