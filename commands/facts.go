package commands

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands/work"
	"svc/events"
	"svc/fault"
)

// Rows of views tell where to look. What is decided, what jobs clone and run, and what receives credentials
// rests on what is here: on the events of the log, which are authenticated, and on the times in their ids. Whoever has
// access to the database alone can change rows, and the column at of the log.

// factOf returns what of says of a stream's aggregate, as of the moment at which the command is stored.
func factOf[F, T any, A work.Aggregate[T]](w *work.Unit, stream events.ID, of func(A) F) (fact F, err error) {
	err = work.Inspect(w, stream, func(a A) error {
		fact = of(a)
		return nil
	})
	return fact, err
}

// look is factOf for who carries out no command. The fact must not refer to the aggregate.
func look[F, T any, A work.Aggregate[T]](ctx context.Context, h *Handler, workspace, stream events.ID, of func(A) F) (fact F, err error) {
	err = h.Read(ctx, workspace, func(w *work.Unit) (err error) {
		fact, err = factOf(w, stream, of)
		return err
	})
	return fact, fault.Wrap(err, "look up %s of %s", stream, workspace)
}

// IsDeleted reports whether a workspace was deleted.
func (h *Handler) IsDeleted(ctx context.Context, workspace events.ID) (bool, error) {
	return look(ctx, h, workspace, workspace, (*aggregates.Workspace).Deleted)
}

// VerifiedAddresses returns the verified addresses of a person, the primary one first, none if there is no such person.
// home is their personal workspace.
func (h *Handler) VerifiedAddresses(ctx context.Context, home, user events.ID) ([]string, error) {
	return look(ctx, h, home, user, func(u *aggregates.User) []string { return slices.Clone(u.Emails()) })
}

// Repo returns a repository. It is not Known if there is none.
func (h *Handler) Repo(ctx context.Context, workspace, id events.ID) (aggregates.Repo, error) {
	return look(ctx, h, workspace, id, func(r *aggregates.Repo) aggregates.Repo { return *r })
}

// Issue returns what the runs of an issue cost so far.
func (h *Handler) Issue(ctx context.Context, workspace, repo events.ID, number int) (aggregates.Issue, error) {
	return look(ctx, h, workspace, events.IssueStream(repo, number), func(i *aggregates.Issue) aggregates.Issue { return *i })
}

// FarmSecretValues returns the vault's ids of the values of all secrets of a workspace, by name.
func (h *Handler) FarmSecretValues(ctx context.Context, workspace events.ID) (map[string]events.ID, error) {
	return look(ctx, h, workspace, events.FarmSecretStream, (*farm.FarmSecrets).Values)
}

// Progress returns what is known of a run. Its status is "" if there is no such run.
func (h *Handler) Progress(ctx context.Context, workspace, run events.ID) (p *aggregates.Progress, err error) {
	err = h.Read(ctx, workspace, func(w *work.Unit) error {
		return work.Inspect(w, run, func(r *aggregates.Run) error {
			p = new(r.Progress(run, w.VersionOf(run)))
			return nil
		})
	})
	return p, fault.Wrap(err, "look up run %s of %s", run, workspace)
}

// RepoOf returns a repository that jobs and runs may name: a connected one, or one that only runs name. connected is nil
// for the latter. ok is false if there is none, or it is not connected any more.
func (h *Handler) RepoOf(
	ctx context.Context, workspace, id events.ID,
) (repo events.Repo, connected *aggregates.Repo, ok bool, err error) {
	of, err := h.Repo(ctx, workspace, id)
	switch {
	case err != nil:
		return repo, nil, false, err
	case of.Known():
		return events.Repo{ID: id, Name: of.Name()}, &of, of.Connected(), nil
	}
	repo, ok, err = h.Views.RunRepo(ctx, workspace, id, h.IssueOf)
	return repo, nil, ok, err
}

// IssueOf returns the issue of a run and its repository, as the first event of the run says. Both are zero if there is
// no such run.
func (h *Handler) IssueOf(ctx context.Context, workspace, run events.ID) (repo events.Repo, number int, err error) {
	return issueOf(ctx, h.log, workspace, run)
}

func issueOf(ctx context.Context, from events.Streams, workspace, run events.ID) (repo events.Repo, number int, err error) {
	list, err := from.First(ctx, workspace, run)
	if err != nil {
		return repo, 0, fmt.Errorf("read the issue of run %s: %w", run, err)
	}
	for _, r := range list {
		if e, ok := r.Event.(events.RunQueued); ok {
			repo, number = e.Repo, e.IssueNumber
		}
	}
	return repo, number, nil
}

// A RunJobState is how far a job is. Closed means that it has ended and nothing more comes of it.
type RunJobState struct {
	State  events.JobState // "" if there is no such job
	Closed bool
	Epoch  int // of its last lease, whose log it is; 0 if there was none
}

// RunJobState returns how far a job is.
func (h *Handler) RunJobState(ctx context.Context, workspace, job events.ID) (RunJobState, error) {
	return look(ctx, h, workspace, job, func(j *farm.Job) RunJobState { return RunJobState{j.State(), j.Closed(), j.Epoch()} })
}

// OpenJobLogs returns the epochs of a job that are over and whose logs are not final.
func (h *Handler) OpenJobLogs(ctx context.Context, workspace, job events.ID) ([]int, error) {
	return look(ctx, h, workspace, job, (*farm.Job).OpenLogs)
}

// A Delivery is a job that a runner has to be told of.
type Delivery struct {
	Job     events.ID
	Epoch   int
	Attempt int
	State   events.JobState // leased or cancelling
	Spec    events.JobSpec  // with the commit that its ref was when it was first checked out
	Suits   bool            // the runner has what the job requires
	Barred  string          // a secret of the job whose scope does not include it, or ""
}

// Delivery returns a job that was leased to a runner and not accepted, or nil if there is none.
func (h *Handler) Delivery(ctx context.Context, workspace, runner, id events.ID) (*Delivery, error) {
	job, err := readJob(ctx, h.log, workspace, id)
	if err != nil {
		return nil, err
	}
	epoch, attempt, waits := job.state.Unaccepted(runner)
	if !waits {
		return nil, nil
	}
	d := &Delivery{Job: id, Epoch: epoch, Attempt: attempt, State: job.state.State(), Spec: job.spec}
	d.Suits, err = look(ctx, h, workspace, runner, func(r *farm.Runner) bool {
		return d.Spec.Required().Met(r.Labels(), r.ExclusiveLabels())
	})
	if err == nil && len(d.Spec.Secrets) > 0 {
		d.Barred, err = look(ctx, h, workspace, events.FarmSecretStream, func(s *farm.FarmSecrets) string { return s.Barred(d.Spec) })
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// A jobHistory is what all events of a job say, of which a [farm.Job] keeps only what it decides by.
type jobHistory struct {
	state farm.Job
	spec  events.JobSpec       // with the commit that its ref was when it was first checked out
	end   events.RunJobSettled // its time on runners is that of all attempts
	began time.Time            // of the attempt that runs; zero if none does
	asked string               // why the job was being cancelled, if it was: its runner reports only that
}

func readJob(ctx context.Context, from events.Streams, workspace, id events.ID) (*jobHistory, error) {
	job := &jobHistory{end: events.RunJobSettled{Job: id}}
	for r, err := range events.ReadStream(ctx, from, workspace, id) {
		if err != nil {
			return nil, fmt.Errorf("load job %s: %w", id, err)
		}
		job.apply(r)
	}
	job.end.Status = string(job.state.State())
	return job, nil
}

func (j *jobHistory) apply(r events.Record) {
	j.state.Apply(r.Event, r.Actor)
	switch e := r.Event.(type) {
	case events.JobSubmitted:
		j.spec = e.Spec
	case events.JobCheckedOut:
		if j.spec.Repo != nil && j.spec.Repo.Commit == "" {
			repo := *j.spec.Repo
			repo.Commit, j.spec.Repo = e.Commit, &repo
		}
	case events.JobStarted:
		j.began = r.ID.Time()
	case events.JobCancelRequested:
		j.asked = e.Reason
	case events.JobFinished:
		j.end.Reason, j.end.ExitCode = cmp.Or(j.asked, e.Reason), e.ExitCode
	case events.JobCancelled:
		j.end.Reason, j.end.ExitCode = e.Reason, nil
	case events.JobLost:
		j.end.Reason, j.end.ExitCode = e.Why(), nil
	case events.JobArtifactsCompleted:
		if e.FailsJob() {
			j.end.Reason = events.ArtifactMissing
		}
	case events.JobArtifactsAbandoned:
		if e.FailsJob() {
			j.end.Reason = events.ArtifactMissing
		}
	}
	if !j.began.IsZero() && events.LeavesRunner([]events.Event{r.Event}) {
		j.end.ComputeMS += max(0, r.ID.Time().Sub(j.began).Milliseconds())
		j.began = time.Time{}
	}
}

// unlessAppended returns what decide decides, or no event if one of a kind was appended to a stream after a time.
func unlessAppended(
	w *work.Unit, stream events.ID, kind string, after time.Time, decide func() ([]events.Event, error),
) ([]events.Event, error) {
	decided, err := decide()
	if err != nil || len(decided) == 0 {
		return nil, err
	}
	for r, err := range events.ReadStream(w.Context(), w.Streams, w.Meta.Workspace, stream) {
		switch {
		case err != nil:
			return nil, fmt.Errorf("load %s: %w", stream, err)
		case r.Event.Kind() == kind && r.ID.Time().After(after):
			return nil, nil
		}
	}
	return decided, nil
}
