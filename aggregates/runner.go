package aggregates

import (
	"slices"

	"svc/events"
	"svc/fault"
)

// Why a runner may refuse a command.
var (
	ErrNoRunner       = fault.New(fault.NotFound, "runner_not_found", "There is no such runner.")
	ErrRunnerOver     = fault.New(fault.Conflict, "runner_over", "This runner is suspended, revoked or retired. Enrol the machine anew.")
	ErrRunnerDraining = fault.New(fault.Conflict, "runner_draining", "This runner takes no more jobs: it is being drained.")
	ErrRunnerOffline  = fault.New(fault.Conflict, "runner_offline", "This runner is not connected.")
	ErrRunnerSpent    = fault.New(fault.Conflict, "runner_spent", "This runner has taken all the jobs that it was enrolled for.")
	ErrSerialUnknown  = fault.New(fault.Conflict, "runner_serial_unknown", "This is not a current certificate of the runner.")
	ErrRenewalEarly   = fault.New(fault.RateLimited, "renewal_too_early",
		"It is too early for the next certificate. Wait as long as Retry-After says.")
)

// A Runner is a build machine that takes jobs. The zero Runner is a stream of something
// else.
type Runner struct {
	id        events.ID
	name      string
	labels    []string
	minted    []string
	exclusive []string
	capacity  int
	limit     int
	jobs      int // that it takes before it retires; 0 is no bound
	taken     []events.ID
	agent     events.Agent

	connected, online bool               // ever, and now
	draining          bool               //
	over              events.RunnerState // why its certificates open nothing, or ""

	current    events.Certificate
	next       events.Certificate // that it got and has not used yet
	superseded []events.Certificate
}

// Apply takes in one event. None counts before the runner is enrolled.
func (r *Runner) Apply(e events.Event, _ events.ID) {
	if _, begins := e.(events.RunnerEnrolled); r.id.IsZero() && !begins {
		return
	}
	switch e := e.(type) {
	case events.RunnerEnrolled:
		r.id, r.name, r.current = e.Runner, e.Name, e.Certificate
		r.labels, r.minted, r.exclusive = e.Labels, e.MintedLabels, e.ExclusiveLabels
		r.capacity, r.limit, r.jobs, r.agent = e.Capacity, e.CapacityLimit, e.Jobs, e.Agent
	case events.RunnerOnline:
		r.connected, r.online = true, true
		r.labels, r.capacity, r.agent = e.Labels, e.Capacity, e.Agent
	case events.RunnerOffline:
		r.online = false
	case events.RunnerDrainRequested:
		r.draining = true
	case events.RunnerDrainEnded:
		r.draining = false
	case events.RunnerJobTaken:
		r.taken = append(slices.Clone(r.taken), e.Job)
	case events.RunnerJobReturned:
		r.taken = slices.DeleteFunc(slices.Clone(r.taken), func(job events.ID) bool { return job == e.Job })
	case events.RunnerSuspended:
		r.end(events.RunnerIsSuspended)
	case events.RunnerRevoked:
		r.end(events.RunnerIsRevoked)
	case events.RunnerRetired:
		r.end(events.RunnerIsRetired)
	default:
		r.applyCertificate(e)
	}
}

func (r *Runner) end(why events.RunnerState) { r.over, r.online = why, false }

// State says what the runner is doing, "" if there is none.
func (r *Runner) State() events.RunnerState {
	switch {
	case r.id.IsZero():
		return ""
	case r.over != "":
		return r.over
	case !r.connected:
		return events.RunnerIsEnrolled
	case !r.online:
		return events.RunnerIsOffline
	case r.draining:
		return events.RunnerIsDraining
	}
	return events.RunnerIsOnline
}

// Name returns the runner's name.
func (r *Runner) Name() string { return r.name }

// Capacity returns how many jobs the runner takes at once.
func (r *Runner) Capacity() int { return r.capacity }

// Labels returns what jobs may ask of the runner, sorted.
func (r *Runner) Labels() []string { return slices.Clone(r.labels) }

// Draining reports whether the runner is to take no more jobs, connected or not.
func (r *Runner) Draining() bool { return r.draining }

// JobsLeft returns how many more jobs the runner takes, if that is bounded.
func (r *Runner) JobsLeft() (left int, bounded bool) {
	if r.jobs == 0 {
		return 0, false
	}
	return max(0, r.jobs-len(r.taken)), true
}

// MayTake returns why the runner may not take a job now, or nil.
func (r *Runner) MayTake() error {
	left, bounded := r.JobsLeft()
	switch {
	case r.id.IsZero():
		return ErrNoRunner
	case r.over != "":
		return ErrRunnerOver
	case r.draining:
		return ErrRunnerDraining
	case !r.online:
		return ErrRunnerOffline
	case bounded && left == 0:
		return ErrRunnerSpent
	}
	return nil
}

// Take lets the runner take a job, in the append that leases it. Nothing follows for one
// that takes any number of jobs: then it is enough that its stream does not move.
func (r *Runner) Take(job events.ID) ([]events.Event, error) {
	if err := r.MayTake(); err != nil {
		return nil, err
	}
	left, bounded := r.JobsLeft()
	if !bounded || slices.Contains(r.taken, job) {
		return nil, nil
	}
	return one(events.RunnerJobTaken{Runner: r.id, Name: r.name, Job: job, Left: left - 1})
}

// Return takes back that the runner took a job which it has not begun, in the append that
// puts the job back into the queue. Nothing follows where that did not count, or the runner is over.
func (r *Runner) Return(job events.ID) ([]events.Event, error) {
	if r.over != "" || !slices.Contains(r.taken, job) {
		return nil, nil
	}
	return one(events.RunnerJobReturned{Runner: r.id, Name: r.name, Job: job, Left: r.jobs - len(r.taken) + 1})
}

// Drain lets the runner take no more jobs; what it has it finishes.
func (r *Runner) Drain(note string) ([]events.Event, error) {
	if err := checkNote(note); err != nil {
		return nil, err
	}
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.over != "":
		return nil, ErrRunnerOver
	case r.draining:
		return nil, nil
	}
	return one(events.RunnerDrainRequested{Runner: r.id, Name: r.name, Note: note})
}

// Resume lets a runner that was drained take jobs again.
func (r *Runner) Resume() ([]events.Event, error) {
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.over != "":
		return nil, ErrRunnerOver
	case !r.draining:
		return nil, nil
	}
	return one(events.RunnerDrainEnded{Runner: r.id, Name: r.name})
}

// Revoke ends the runner and its certificates for good.
func (r *Runner) Revoke(note string) ([]events.Event, error) {
	if err := checkNote(note); err != nil {
		return nil, err
	}
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.over == events.RunnerIsRevoked:
		return nil, nil
	}
	return one(events.RunnerRevoked{Runner: r.id, Name: r.name, Note: note})
}

// Retire ends a runner that has done all its jobs. Of one that may take more nothing
// comes.
func (r *Runner) Retire() ([]events.Event, error) {
	left, bounded := r.JobsLeft()
	if r.id.IsZero() || r.over != "" || !bounded || left > 0 {
		return nil, nil
	}
	return one(events.RunnerRetired{Runner: r.id, Name: r.name})
}
