package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/events"
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

// recover takes up what an earlier supervisor left: nothing of its jobs runs on, and what
// was said of them is said to the end.
func (s *Supervisor) recover() error {
	f := s.cfg.Folder
	if err := f.Make(); err != nil {
		return err
	}
	work, err := os.ReadDir(f.path(workFolder))
	if err != nil {
		return fmt.Errorf("read folder of jobs: %w", err)
	}
	for _, e := range work {
		if n := sandbox.Sweep(e.Name()); n > 0 {
			s.log.Warn("killed what was left of a job", "job", e.Name(), "processes", n)
		}
		if err := sandbox.RemoveAll(f.path(workFolder, e.Name())); err != nil {
			s.log.Error("remove what was left of a job", "job", e.Name(), "err", err)
		}
	}
	kept, err := os.ReadDir(f.path(spoolFolder))
	if err != nil {
		return fmt.Errorf("read spools: %w", err)
	}
	for _, e := range kept {
		if err := s.reopen(e.Name()); err != nil {
			s.log.Error("spool", "job", e.Name(), "err", err)
		}
	}
	return nil
}

func (s *Supervisor) reopen(name string) error {
	text, number, _ := strings.Cut(name, ".")
	epoch, err := strconv.Atoi(number)
	id, bad := events.ParseID(text)
	if err != nil || bad != nil {
		return errors.New("a folder of another name than jobs have")
	}
	sandbox.Sweep(name)
	j := newJob(key{text, epoch}, id, s.cfg.Folder.path(spoolFolder, name))
	j.spool, err = spool.Open(j.dir, func(r spool.Record) {
		var e spooled
		if r.Kind == kindEvent && json.Unmarshal(r.Data, &e) == nil && e.Event.Kind == wire.EventFinished {
			j.finished = r.Seq
		}
	})
	if err != nil {
		return err
	}
	j.over, j.lost, j.state = true, j.finished == 0, stateFinished
	close(j.ended)
	if body, err := os.ReadFile(Folder(j.dir).path(manifestFileName)); err == nil && !j.lost {
		var m manifest
		if err := json.Unmarshal(body, &m); err == nil {
			j.manifest = &m
		}
	}
	s.jobs[j.key] = j
	return nil
}

// conclude says the end of a job whose supervisor was killed, behind what the service has.
func (s *Supervisor) conclude(j *job, acked int64) error {
	if err := j.spool.SkipTo(acked); err != nil {
		return err
	}
	j.set(func() { j.lost = false })
	err := j.say(wire.Event{Kind: wire.EventNotice, Text: "The runner was restarted, and what it ran has ended."})
	end := wire.Event{Kind: wire.EventFinished, Outcome: infra, Reason: "agent_restarted", FinishedAt: time.Now().UTC()}
	return errors.Join(err, j.say(end))
}

// refuse returns why a job is not taken, or "".
func (s *Supervisor) refuse(a wire.Assign, fresh bool) (reason, text string) {
	if s.draining() {
		return declineDraining, ""
	}
	if !fresh {
		return declineBusy, "the connection was silent for too long to begin a job"
	}
	if s.busy() >= s.cfg.Capacity {
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

// assign takes a job, or says why not. The fence is when it has to be killed unless heartbeats move it.
func (s *Supervisor) assign(k key, a wire.Assign, fresh bool, fence time.Duration) (reason, text string) {
	if s.get(k) != nil {
		return "", "" // the service did not see the answer
	}
	id, err := events.ParseID(k.job)
	if err != nil || k.epoch < 1 {
		return declineUnsupported, "a job without an id"
	}
	if reason, text = s.refuse(a, fresh); reason != "" {
		return reason, text
	}
	j := newJob(k, id, s.cfg.Folder.path(spoolFolder, k.name()))
	j.title, j.admitted, j.fence = a.Name, true, fence
	if j.spool, err = spool.Create(j.dir); err != nil {
		s.log.Error("spool", "job", k.name(), "err", err)
		return declineDisk, "the spool cannot be written"
	}
	var older []*job
	s.update(func() {
		for _, o := range s.jobs {
			if o.job == k.job {
				older = append(older, o)
			}
		}
		s.jobs[k] = j
	})
	s.log.Info("job", "job", k.name(), "title", a.Name, "steps", len(a.Steps), "sandbox", a.Sandbox.Kind)
	s.owned.Go(func() {
		for _, o := range older { // of an earlier epoch: the lease was lost
			s.drop(o)
		}
		s.work(j, a)
	})
	return "", ""
}

// drop ends a job that is not ours any more, and returns when nothing of it runs.
func (s *Supervisor) drop(j *job) {
	j.set(func() { j.dropped = true })
	j.order(order{Reason: becauseFenced, Now: true})
	<-j.ended
	s.forget(j)
}

// forget removes a job of which nothing runs.
func (s *Supervisor) forget(j *job) {
	if err := j.remove(); err != nil {
		s.log.Error("spool", "job", j.name(), "err", err)
	}
	s.update(func() {
		if s.jobs[j.key] == j {
			delete(s.jobs, j.key)
		}
	})
	s.poke()
}

// settle brings a job to its end whose end is acknowledged.
func (s *Supervisor) settle(j *job, artifacts bool) {
	j.mu.Lock()
	again := j.settling || j.dropped
	j.settling = true
	m := j.manifest
	j.mu.Unlock()
	if again {
		return
	}
	s.owned.Go(func() {
		<-j.ended
		if artifacts && m != nil && !s.upload(s.ctx, j, *m) {
			return // it goes on when the runner is started again
		}
		s.forget(j)
	})
}

// ack takes note that the service has what was said of a job.
func (s *Supervisor) ack(k key, upto int64) {
	j := s.get(k)
	if j == nil {
		return
	}
	all, err := j.acknowledged(upto)
	if err != nil {
		s.log.Error("spool", "job", k.name(), "err", err)
	}
	if all {
		s.settle(j, true)
	}
	s.poke()
}

// verdict obeys what the service says of a job that this runner named. A welcome's is
// also where sending begins.
func (s *Supervisor) verdict(v wire.Verdict, welcome bool) {
	j := s.get(key{v.Job, v.Epoch})
	if j == nil {
		return
	}
	switch v.Verdict {
	case wire.Continue, wire.CancelJob:
		if welcome {
			s.resume(j, v.Acked)
		}
		if v.Verdict == wire.CancelJob {
			j.order(order{Reason: becauseCancel, Grace: seconds(v.GraceSeconds)})
		}
	case wire.Done:
		s.done(j, v)
	case wire.StopJob:
		s.log.Warn("the job is not this runner's any more", "job", j.name())
		s.owned.Go(func() { s.drop(j) })
	}
}

// resume begins to send behind what the service has.
func (s *Supervisor) resume(j *job, acked int64) {
	j.mu.Lock()
	lost := j.lost
	j.mu.Unlock()
	if lost {
		if err := s.conclude(j, acked); err != nil {
			s.log.Error("spool", "job", j.name(), "err", err)
			return
		}
	}
	j.rewind(acked)
	j.set(func() { j.admitted = true })
	s.ack(j.key, acked)
}

func (s *Supervisor) done(j *job, v wire.Verdict) {
	// Of one that has said its end the process may still be about to go: to drop that would
	// remove the files that are about to be uploaded.
	if j.runs() { // which the service believes to have ended
		s.owned.Go(func() { s.drop(j) })
		return
	}
	s.settle(j, v.Artifacts)
}
