package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/events"
	"svc/farm/runner/executor"
	"svc/farm/runner/identity"
	"svc/farm/runner/sandbox"
	"svc/farm/runner/spool"
	"svc/farm/wire"
)

// Reasons to decline a job.
const (
	declineBusy        = "busy"
	declineUnsupported = "unsupported"
	declineDisk        = "disk_full"
	declineDraining    = "draining"
)

// recoverJobs takes over what an earlier supervisor left: it kills remaining processes, and reopens
// the spools so that their messages are sent to the end.
func (s *Supervisor) recoverJobs() error {
	f := s.cfg.Folder
	if err := f.Make(); err != nil {
		return err
	}
	work, err := os.ReadDir(f.Path(identity.WorkFolder))
	if err != nil {
		return fmt.Errorf("read folder of jobs: %w", err)
	}
	for _, e := range work {
		if n := sandbox.Sweep(e.Name()); n > 0 {
			s.log.Warn("killed what was left of a job", "job", e.Name(), "processes", n)
		}
		if err := sandbox.RemoveAll(f.Path(identity.WorkFolder, e.Name())); err != nil {
			s.log.Error("remove what was left of a job", "job", e.Name(), "err", err)
		}
	}
	kept, err := os.ReadDir(f.Path(identity.SpoolFolder))
	if err != nil {
		return fmt.Errorf("read spools: %w", err)
	}
	for _, e := range kept {
		if err := s.reopenJob(e.Name()); err != nil {
			s.log.Error("reopen spool", "job", e.Name(), "err", err)
		}
	}
	return nil
}

func (s *Supervisor) reopenJob(name string) error {
	text, number, _ := strings.Cut(name, ".")
	epoch, err := strconv.Atoi(number)
	id, bad := events.ParseID(text)
	if err != nil || bad != nil {
		return errors.New("not the folder of a job")
	}
	sandbox.Sweep(name)
	j := newJob(attemptKey{text, epoch}, id, s.cfg.Folder.Path(identity.SpoolFolder, name))
	hasArtifacts := true // a job whose end was lost in a power cut may, if the service has its end
	j.spool, err = spool.Open(j.dir, func(r spool.Record) {
		var e executor.TimedEvent
		if r.Kind == executor.KindEvent && json.Unmarshal(r.Data, &e) == nil && e.Event.Kind == wire.EventFinished {
			j.finishedSeq, hasArtifacts = r.Seq, e.Event.Artifacts > 0
		}
	})
	if err != nil {
		return err
	}
	j.processEnded, j.endMissing, j.state = true, j.finishedSeq == 0, stateFinished
	close(j.ended)
	if body, err := os.ReadFile(filepath.Join(j.dir, manifestFileName)); err == nil && hasArtifacts {
		var m executor.Manifest
		if err := json.Unmarshal(body, &m); err == nil {
			j.manifest = &m
		}
	}
	s.jobs[j.attemptKey] = j
	return nil
}

// lostEnd returns a function that stores the end of a job whose supervisor was killed, after the last
// message that the service has. After an error it can be called again.
func lostEnd(j *job, acked int64) func() error {
	noticed := false
	return func() error {
		if err := j.spool.SkipTo(acked); err != nil {
			return err
		}
		if !noticed {
			err := j.appendEvent(wire.Event{Kind: wire.EventNotice, Text: "The runner was restarted, and what it ran has ended."})
			if err != nil {
				return err
			}
			noticed = true
		}
		return j.appendEvent(wire.Event{
			Kind: wire.EventFinished, Outcome: executor.Infra, Reason: "agent_restarted", FinishedAt: wire.At(time.Now()),
		})
	}
}

// declineReason returns why a job is declined, or "". fresh says whether the service was heard
// recently.
func (s *Supervisor) declineReason(a wire.Assign, fresh bool) (reason, text string) {
	if s.draining() {
		return declineDraining, ""
	}
	if !fresh {
		return declineBusy, "the connection was silent for too long to begin a job"
	}
	if s.runningJobs() >= s.cfg.Capacity {
		return declineBusy, ""
	}
	if free := diskFree(string(s.cfg.Folder)); free >= 0 && free < s.cfg.MinDiskFree {
		return declineDisk, fmt.Sprintf("%d bytes are free", free)
	}
	switch {
	case !slices.Contains(s.sandboxes, a.Sandbox.Kind):
		return declineUnsupported, "sandbox " + a.Sandbox.Kind
	case a.Sandbox.Network != "" && a.Sandbox.Network != "none" && a.Sandbox.Network != "host":
		return declineUnsupported, "network " + a.Sandbox.Network
	}
	for _, st := range a.Steps {
		switch st.Shell {
		case "", "sh":
		case "bash":
			if _, err := exec.LookPath("bash"); err != nil {
				return declineUnsupported, "shell bash"
			}
		default:
			return declineUnsupported, "shell " + st.Shell
		}
	}
	if a.Source != nil {
		if _, err := exec.LookPath("git"); err != nil {
			return declineUnsupported, "git is not installed"
		}
	}
	return "", ""
}

// assign takes a job, or returns why it is declined. fence is when to kill the job, unless
// heartbeats extend it.
func (s *Supervisor) assign(k attemptKey, a wire.Assign, fresh bool, fence time.Duration) (reason, text string) {
	if s.heldJob(k) != nil {
		return "", "" // taken already: the accept was lost
	}
	id, err := events.ParseID(k.jobID)
	if err != nil || k.epoch < 1 {
		return declineUnsupported, "a job without an id"
	}
	if reason, text = s.declineReason(a, fresh); reason != "" {
		return reason, text
	}
	j := newJob(k, id, s.cfg.Folder.Path(identity.SpoolFolder, k.name()))
	j.title, j.maySend, j.fenceAt = a.Name, true, fence
	if j.spool, err = spool.Create(j.dir); err != nil {
		s.log.Error("create spool", "job", k.name(), "err", err)
		return declineDisk, "the spool cannot be written"
	}
	var older []*job
	s.update(func() {
		for _, o := range s.jobs {
			if o.jobID == k.jobID {
				older = append(older, o)
			}
		}
		s.jobs[k] = j
	})
	s.log.Info("take job", "job", k.name(), "title", a.Name, "steps", len(a.Steps), "sandbox", a.Sandbox.Kind)
	s.inBackground(func(ctx context.Context) {
		for _, o := range older { // earlier epochs, whose leases have expired
			s.drop(o)
		}
		if s.awaitAccepted(ctx, j) {
			s.runJob(ctx, j, a)
		}
	})
	return "", ""
}

// drop kills a job that is no longer this runner's, and returns when no process of it is left.
func (s *Supervisor) drop(j *job) {
	j.update(func() { j.dropped = true })
	j.sendOrder(executor.StopOrder{Reason: executor.ReasonFenced, Kill: true})
	<-j.ended
	s.forget(j)
}

// awaitAccepted waits until the service has stored that the runner accepts the job, since before
// that it may give the job to another runner. It returns false if the job must not begin: it was
// taken away, or its lease is about to expire.
func (s *Supervisor) awaitAccepted(ctx context.Context, j *job) bool {
	select {
	case <-j.accepted:
	case <-j.killed:
	case <-ctx.Done(): // the next supervisor reports that the job ended
	}
	if j.isAccepted() && !isClosed(j.killed) && !j.fenceDue(s.cfg.BootTime()) && ctx.Err() == nil {
		return true
	}
	j.mu.Lock()
	j.processEnded = true
	dropped := j.dropped
	j.mu.Unlock()
	close(j.ended)
	if !dropped && ctx.Err() == nil {
		s.log.Warn("the service did not confirm the job in time", "job", j.name())
		s.forget(j)
	}
	return false
}

// forget removes a job without processes.
func (s *Supervisor) forget(j *job) {
	if err := j.remove(); err != nil {
		s.log.Error("remove spool", "job", j.name(), "err", err)
	}
	s.update(func() {
		if s.jobs[j.attemptKey] == j {
			delete(s.jobs, j.attemptKey)
		}
	})
	s.wakeWriter()
}

// finish completes a job whose end is acknowledged: it uploads artifacts and forgets the job.
func (s *Supervisor) finish(j *job, artifacts bool) {
	j.mu.Lock()
	again := j.finishing || j.dropped
	j.finishing = true
	m := j.manifest
	j.mu.Unlock()
	if again {
		return
	}
	s.inBackground(func(ctx context.Context) {
		<-j.ended
		if artifacts && m != nil && !s.upload(ctx, j, *m) {
			return // continues when the runner starts again
		}
		s.forget(j)
	})
}

// ack notes that the service has stored the messages of a job up to a number.
func (s *Supervisor) ack(k attemptKey, upto int64) {
	j := s.heldJob(k)
	if j == nil {
		return
	}
	all, err := j.acknowledge(upto)
	if err != nil {
		s.log.Error("acknowledge in spool", "job", k.name(), "err", err)
	}
	if all {
		s.finish(j, true)
	}
	s.wakeWriter()
}

// applyVerdict obeys the service's verdict on a held job. One in a welcome also says where to
// resume sending.
func (s *Supervisor) applyVerdict(v wire.Verdict, welcome bool) {
	j := s.heldJob(attemptKey{v.Job, v.Epoch})
	if j == nil {
		return
	}
	switch v.Verdict {
	case wire.Continue, wire.CancelJob:
		if welcome {
			s.resume(j, v.Acked)
		}
		if v.Verdict == wire.CancelJob {
			j.sendOrder(executor.StopOrder{Reason: executor.ReasonCancel, Grace: time.Duration(v.GraceSeconds) * time.Second})
		}
	case wire.Done:
		s.handleDone(j, v)
	case wire.StopJob:
		s.log.Warn("the job no longer belongs to this runner", "job", j.name())
		s.inBackground(func(context.Context) { s.drop(j) })
	}
}

// resume starts sending after what the service has.
func (s *Supervisor) resume(j *job, acked int64) {
	j.mu.Lock()
	lost := j.endMissing
	j.endMissing = false
	j.mu.Unlock()
	if lost {
		s.inBackground(func(ctx context.Context) { s.reportEnd(ctx, j, lostEnd(j, acked)) })
	}
	j.rewind(acked)
	j.update(func() { j.maySend = true })
	s.ack(j.attemptKey, acked)
}

func (s *Supervisor) handleDone(j *job, v wire.Verdict) {
	// A job that has reported its end may still have a process. Dropping such a job would remove
	// the files that are about to be uploaded.
	if j.isRunning() { // the service believes that it has ended
		s.inBackground(func(context.Context) { s.drop(j) })
		return
	}
	s.finish(j, v.Artifacts)
}
