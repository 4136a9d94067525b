package farm

import (
	"slices"

	"svc/events"
	"svc/fault"
)

// The reasons for which a command about a runner is refused. The first one refuses all that concerns
// the farm.
var (
	ErrFarmOff        = fault.New(fault.NotFound, "farm_off", "There is no build farm here.")
	ErrNoRunner       = fault.New(fault.NotFound, "runner_not_found", "There is no such runner.")
	ErrRunnerOver     = fault.New(fault.Conflict, "runner_over", "This runner is suspended, revoked or retired. Enroll the machine anew.")
	ErrRunnerDraining = fault.New(fault.Conflict, "runner_draining", "This runner takes no more jobs: it is being drained.")
	ErrRunnerOffline  = fault.New(fault.Conflict, "runner_offline", "This runner is not connected.")
	ErrRunnerSpent    = fault.New(fault.Conflict, "runner_spent", "This runner has taken all the jobs that it was enrolled for.")
	ErrSerialUnknown  = fault.New(fault.Conflict, "runner_serial_unknown", "This is not a current certificate of the runner.")
	ErrRenewalEarly   = fault.New(fault.RateLimited, "renewal_too_early",
		"It is too early for the next certificate. Wait as long as Retry-After says.")
)

// A Runner is a build machine that takes jobs. It is zero if the stream is not a runner's.
type Runner struct {
	id        events.ID
	name      string
	selfNamed bool // the machine chose the name
	labels    []string
	minted    []string
	exclusive []string
	capacity  int
	limit     int
	jobs      int // how many it takes before it retires; 0 means no limit
	taken     []events.ID
	agent     events.Agent

	connected, online bool               // connected: has ever been online
	draining          bool               // takes no new jobs
	drainNote         string             // the last note of those who drained it
	ended             events.RunnerState // why its certificates are refused, or ""

	current    events.Certificate
	next       events.Certificate // issued and not used yet
	superseded []events.Certificate
}

// Apply adds one event. Events before RunnerEnrolled are ignored, because any stream may be
// loaded as a runner's.
func (r *Runner) Apply(e events.Event, _ events.Actor) {
	if _, begins := e.(events.RunnerEnrolled); r.id.IsZero() && !begins {
		return
	}
	switch e := e.(type) {
	case events.RunnerEnrolled:
		r.id, r.name, r.current = e.Runner, e.Name, e.Certificate
		r.labels, r.minted, r.exclusive = events.RunnerLabels(e.MintedLabels, e.Labels), e.MintedLabels, e.ExclusiveLabels
		r.selfNamed = e.SelfNamed
		r.capacity, r.limit, r.jobs, r.agent = e.Capacity, e.CapacityLimit, e.Jobs, e.Agent
	case events.RunnerOnline:
		r.connected, r.online = true, true
		r.labels, r.capacity, r.agent = events.RunnerLabels(r.minted, e.Labels), e.Capacity, e.Agent
	case events.RunnerOffline:
		r.online = false
	case events.RunnerDrainRequested:
		r.draining = true
		r.drainNote = e.Note
	case events.RunnerDrainEnded:
		r.draining = false
		r.drainNote = ""
	case events.RunnerJobTaken:
		r.taken = append(slices.Clone(r.taken), e.Job)
	case events.RunnerJobReturned:
		r.taken = slices.DeleteFunc(slices.Clone(r.taken), func(job events.ID) bool { return job == e.Job })
	case events.RunnerSuspended:
		r.end(events.RunnerStateSuspended)
	case events.RunnerRevoked:
		r.end(events.RunnerStateRevoked)
	case events.RunnerRetired:
		r.end(events.RunnerStateRetired)
	default:
		r.applyCertificate(e)
	}
}

func (r *Runner) end(why events.RunnerState) { r.ended, r.online = why, false }

// State returns the runner's state, "" if there is no runner.
func (r *Runner) State() events.RunnerState {
	switch {
	case r.id.IsZero():
		return ""
	case r.ended != "":
		return r.ended
	case !r.connected:
		return events.RunnerStateEnrolled
	case !r.online:
		return events.RunnerStateOffline
	case r.draining:
		return events.RunnerStateDraining
	}
	return events.RunnerStateOnline
}

// Name returns the runner's name.
func (r *Runner) Name() string { return r.name }

// Capacity returns how many jobs the runner can have at once.
func (r *Runner) Capacity() int { return r.capacity }

// Labels returns the labels that jobs can require, sorted.
func (r *Runner) Labels() []string { return slices.Clone(r.labels) }

// ExclusiveLabels returns the labels that a job must ask for to run there.
func (r *Runner) ExclusiveLabels() []string { return slices.Clone(r.exclusive) }

// Draining reports whether the runner takes no new jobs, whether it is connected or not.
func (r *Runner) Draining() bool { return r.draining }

// JobsLeft returns how many more jobs the runner takes. bounded is false if there is no
// limit.
func (r *Runner) JobsLeft() (left int, bounded bool) {
	if r.jobs == 0 {
		return 0, false
	}
	return max(0, r.jobs-len(r.taken)), true
}

// MayTake returns an error if the runner cannot take a job now.
func (r *Runner) MayTake() error {
	left, bounded := r.JobsLeft()
	switch {
	case r.id.IsZero():
		return ErrNoRunner
	case r.ended != "":
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

// Take counts a job that is leased to the runner, in the append of the lease. It returns no
// event for a runner without a limit: there it is enough that the append conflicts if the
// runner's stream changes.
func (r *Runner) Take(job events.ID) ([]events.Event, error) {
	if err := r.MayTake(); err != nil {
		return nil, err
	}
	left, bounded := r.JobsLeft()
	if !bounded || slices.Contains(r.taken, job) {
		return nil, nil
	}
	return oneEvent(events.RunnerJobTaken{Runner: r.id, Name: r.name, Job: job, Left: left - 1})
}

// Return uncounts a job that the runner has not begun, in the append that requeues the job.
// It returns no event if the job was not counted or the runner has ended.
func (r *Runner) Return(job events.ID) ([]events.Event, error) {
	if r.ended != "" || !slices.Contains(r.taken, job) {
		return nil, nil
	}
	return oneEvent(events.RunnerJobReturned{Runner: r.id, Name: r.name, Job: job, Left: r.jobs - len(r.taken) + 1})
}

// Drain makes the runner take no new jobs. It finishes those that it has. If it is draining already,
// only a new note is recorded.
func (r *Runner) Drain(note string) ([]events.Event, error) {
	note, err := cleanNote(note)
	if err != nil {
		return nil, err
	}
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.ended != "":
		return nil, ErrRunnerOver
	case r.draining && (note == "" || note == r.drainNote):
		return nil, nil
	}
	return oneEvent(events.RunnerDrainRequested{Runner: r.id, Name: r.name, Note: note, Again: r.draining, FromNote: r.drainNote})
}

// Resume ends the draining of a runner.
func (r *Runner) Resume() ([]events.Event, error) {
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.ended != "":
		return nil, ErrRunnerOver
	case !r.draining:
		return nil, nil
	}
	return oneEvent(events.RunnerDrainEnded{Runner: r.id, Name: r.name})
}

// Revoke ends the runner and its certificates for good.
func (r *Runner) Revoke(note string) ([]events.Event, error) {
	note, err := cleanNote(note)
	if err != nil {
		return nil, err
	}
	switch {
	case r.id.IsZero():
		return nil, ErrNoRunner
	case r.ended == events.RunnerStateRevoked:
		return nil, nil
	}
	return oneEvent(events.RunnerRevoked{Runner: r.id, Name: r.name, Note: note})
}

// Retire ends a runner that has done all its jobs. It returns no event if the runner may
// take more.
func (r *Runner) Retire() ([]events.Event, error) {
	left, bounded := r.JobsLeft()
	if r.id.IsZero() || r.ended != "" || !bounded || left > 0 {
		return nil, nil
	}
	return oneEvent(events.RunnerRetired{Runner: r.id, Name: r.name})
}
