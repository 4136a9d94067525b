package dispatch

import (
	"math"
	"slices"
	"sync"
	"time"

	"svc/events"
	"svc/farm/wire"
)

// slots are the jobs that a runner has, and what else limits how many more it gets. A job occupies a
// slot from the moment it is leased (addPending) or listed in the hello (hold) until it is forgotten.
type slots struct {
	mu           sync.Mutex
	row          runnerRow // as read last; Left counts the jobs leased since
	drainsItself bool      // the runner said that it takes no jobs
	unoffered    int       // slots that the last heartbeat did not offer
	jobs         map[events.ID]*assignedJob
	pending      []events.ID // jobs leased to it whose assign message is not sent yet
}

// An assignedJob is a job that the runner of a connection holds.
type assignedJob struct {
	epoch       int
	nextSeq     int64 // number of the next message
	gapReported int64 // value of nextSeq for which a gap was reported last
	accepted    bool  // the runner has accepted it
	declined    bool  // the runner has declined it, which is not recorded yet

	cancelDeadline time.Time // when it is cancelled by force, as the runner was told; zero if it was not told to cancel
}

func newSlots() slots { return slots{jobs: map[events.ID]*assignedJob{}} }

// load sets what is known of the runner when it says hello.
func (s *slots) load(row runnerRow, drainsItself bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.row, s.drainsItself = row, drainsItself
}

// apply takes over the runner's row, and reports whether the wish to drain has changed.
func (s *slots) apply(row runnerRow) (drainChanged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	drainChanged = s.row.Draining != row.Draining
	s.row = row
	return drainChanged
}

// drainAsked reports whether a person asked the runner to drain.
func (s *slots) drainAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row.Draining
}

// setDrainsItself notes whether the runner takes jobs.
func (s *slots) setDrainsItself(drains bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drainsItself = drains
}

// hold notes the jobs of a hello that the runner keeps, according to the verdicts on them.
func (s *slots) hold(list []heldJob, verdicts map[heldJob]verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, job := range list {
		if v := verdicts[job]; v.word == wire.Continue || v.word == wire.CancelJob {
			s.jobs[job.job] = &assignedJob{epoch: job.epoch, nextSeq: v.acked + 1, cancelDeadline: v.deadline, accepted: true}
		}
	}
}

// A slotUsage is the state of slots at one moment.
type slotUsage struct {
	labels, exclusive []string // exclusive has the labels that a job must ask for to run there
	held              int      // jobs that the runner was told of
	unanswered        int      // jobs that it was given and has not accepted
	free              int      // how many more jobs it takes, unless it is in backoff
}

func (s *slots) usage() slotUsage {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := slotUsage{labels: s.row.Labels, exclusive: s.row.Exclusive, held: len(s.jobs), unanswered: len(s.pending)}
	for _, h := range s.jobs {
		if !h.accepted {
			u.unanswered++
		}
	}
	if s.row.Draining || s.drainsItself {
		return u
	}
	u.free = s.row.Capacity - s.unoffered - len(s.jobs) - len(s.pending)
	if s.row.Left != nil {
		u.free = min(u.free, *s.row.Left)
	}
	u.free = max(u.free, 0)
	return u
}

// setOffered notes how many slots the runner offers beside the jobs that it holds, and reports whether
// it offers more than before.
func (s *slots) setOffered(free, holds int) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.unoffered
	s.unoffered = max(0, s.row.Capacity-holds-max(free, 0))
	return s.unoffered < before
}

// pause offers no slots of the runner until its next heartbeat.
func (s *slots) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unoffered = s.row.Capacity
}

// countAgainstLimit subtracts n from the number of jobs that an ephemeral runner may still take.
func (s *slots) countAgainstLimit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.row.Left != nil {
		left := max(0, *s.row.Left-n)
		s.row.Left = &left
	}
}

// addPending notes jobs that the runner has to be told of.
func (s *slots) addPending(jobs []events.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, job := range jobs {
		if !slices.Contains(s.pending, job) {
			s.pending = append(s.pending, job)
		}
	}
}

// heldJobs returns the jobs that the runner was told of.
func (s *slots) heldJobs() (list []heldJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for job, h := range s.jobs {
		list = append(list, heldJob{job, h.epoch})
	}
	return list
}

// pendingJobs returns the jobs that the runner has to be told of.
func (s *slots) pendingJobs() []events.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pending)
}

// removePending notes that there is nothing more to tell the runner of a job.
func (s *slots) removePending(job events.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = slices.DeleteFunc(s.pending, func(id events.ID) bool { return id == job })
}

// assign notes that the runner is told of a job.
func (s *slots) assign(job events.ID, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[job] = &assignedJob{epoch: epoch, nextSeq: 1}
}

// forget removes a job that the runner does not hold in this or an earlier epoch, and reports whether
// it was there.
func (s *slots) forget(job events.ID, epoch int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.jobs[job]
	if h == nil || h.epoch > epoch {
		return false
	}
	delete(s.jobs, job)
	return true
}

// markAccepted notes that the runner accepted a job.
func (s *slots) markAccepted(job events.ID, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.jobs[job]; h != nil && h.epoch == epoch {
		h.accepted = true
	}
}

// markDeclined keeps the slot of a declined job occupied until the decline is recorded. Otherwise
// the runner would be given another job before its backoff begins.
func (s *slots) markDeclined(job events.ID, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.jobs[job]; h != nil && h.epoch == epoch {
		h.declined = true
	}
}

// unanswered returns the jobs that the runner was told of and has neither accepted nor declined. A
// declined job is forgotten once that is recorded.
func (s *slots) unanswered() (list []heldJob) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for job, h := range s.jobs {
		if !h.accepted && !h.declined {
			list = append(list, heldJob{job, h.epoch})
		}
	}
	return list
}

// setCancelDeadline notes until when a job has to be cancelled, and reports whether the runner has to
// be told: once, and again if the deadline moved closer.
func (s *slots) setCancelDeadline(job events.ID, epoch int, deadline time.Time) (tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.jobs[job]
	tell = h != nil && h.epoch == epoch && (h.cancelDeadline.IsZero() || deadline.Before(h.cancelDeadline))
	if tell {
		h.cancelDeadline = deadline
	}
	return tell
}

// checkSeq compares the number of a message with the next expected one. It returns 0 if there is no
// gap, the expected number if there is one, and -1 if this gap was reported already. A message of
// an unknown job passes: the database decides.
func (s *slots) checkSeq(job events.ID, epoch int, seq int64) (gap int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.jobs[job]
	if h == nil || h.epoch != epoch {
		return 0
	}
	if seq > h.nextSeq {
		if h.gapReported == h.nextSeq { // one report per gap is enough
			return -1
		}
		h.gapReported = h.nextSeq
		return h.nextSeq
	}
	if seq == h.nextSeq && h.nextSeq < math.MaxInt64 {
		h.nextSeq++
	}
	return 0
}
