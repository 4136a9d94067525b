package queue_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/events/store"
	"svc/farm/jobinput"
	"svc/farm/queue"
	"svc/fault"
	"svc/http/limit"
	"svc/projections"
	"svc/projections/farmviews"
	"svc/test/pgtest"
	"svc/test/world"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newID() events.ID { return events.NewID(epoch) }

func now() time.Time { return epoch }

func newQueue(t *testing.T) queue.Queue {
	t.Helper()
	db := pgtest.New(t)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	q := queue.Queue{
		Commands: commands.New(log, now), Jobs: farmviews.Jobs{DB: db}, Secrets: farmviews.FarmSecrets{DB: db},
		Inputs: jobinput.Inputs{DB: db, Now: now}, Now: now,
	}
	q.Commands.Views.Turn = q.Turn
	return q
}

func spec(t *testing.T, change ...func(*events.JobSpec)) events.JobSpec {
	t.Helper()
	s := events.JobSpec{Name: "tests", Steps: []events.JobStep{{Run: "true"}}}
	for _, f := range change {
		f(&s)
	}
	s, err := farm.CheckJob(s)
	require.NoError(t, err)
	return s
}

// However small the specification of a job, it counts 1 KiB: for its workspace, and a third more for its
// submitter. It counts once, however often the command is decided.
func TestSmallJobCountsOneKiB(t *testing.T) {
	t.Parallel()
	const some = 100 // bytes that are left, for less than a job
	perDay, err := limit.PerDay(5<<10 + some)
	require.NoError(t, err)
	q := newQueue(t)
	q.Count = perDay.TakeShare
	workspace := newID()
	for _, admitted := range []int{3, 2} {
		by, spec := newID(), spec(t)
		text, err := json.Marshal(spec)
		require.NoError(t, err)
		require.Less(t, len(text), 600)
		for range admitted {
			turn := q.Turn(workspace, by, spec)
			for range 3 {
				_, _, err := turn(t.Context())
				require.NoError(t, err)
			}
		}
		_, _, err = q.Turn(workspace, by, spec)(t.Context())
		require.ErrorIs(t, err, queue.ErrTooLarge)
	}
}

func loop(workspace, repo events.ID) commands.Meta {
	return commands.Meta{Workspace: workspace, Envelope: events.Envelope{Actor: commands.LoopOf(repo), Origin: events.FromSystem}}
}

// run queues a run of a repository, and returns it when it implements.
func run(t *testing.T, q queue.Queue, workspace, repo events.ID, slot int) events.ID {
	t.Helper()
	id := newID()
	_, err := q.Commands.QueueRun(t.Context(), commands.QueueRun{
		Meta: loop(workspace, repo), Run: id, Repo: events.Repo{ID: repo, Name: "acme/web"}, IssueNumber: slot, IssueTitle: "Fix it",
	})
	require.NoError(t, err)
	_, err = q.Commands.RecordRun(t.Context(), commands.RecordRun{Meta: loop(workspace, repo), Run: id, Facts: world.Implementing(slot)})
	require.NoError(t, err)
	return id
}

func runJob(t *testing.T, workspace, repo, run events.ID, change ...func(*events.JobSpec)) commands.StartRunJob {
	t.Helper()
	commit := "9f2c41d07be85a3369d1e4c8b7f0a25d6c13e98b"
	change = append(change, func(s *events.JobSpec) { s.Repo = &events.JobRepo{ID: repo, Commit: commit} })
	job := newID()
	return commands.StartRunJob{
		Meta: loop(workspace, repo), Run: run,
		Request: events.RunJobRequested{Job: job, Name: job.String(), Head: commit, Purpose: events.JobImplements, Attempt: 1},
		Spec:    spec(t, change...), RepoName: "acme/web",
	}
}

// The jobs of runs have the turns of their repository, and an input that the log names.
func TestStartRunJob(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	workspace, web, api := newID(), newID(), newID()
	ctx := t.Context()
	webRun, apiRun := run(t, q, workspace, web, 1), run(t, q, workspace, api, 2)
	turns := map[events.ID]int64{}
	for _, c := range []commands.StartRunJob{
		runJob(t, workspace, web, webRun), runJob(t, workspace, web, webRun), runJob(t, workspace, api, apiRun),
	} {
		_, err := q.StartRunJob(ctx, c, []byte(`{"contract":1}`))
		require.NoError(t, err)
		submitted, requested := stored(t, q, workspace, c)
		require.Equal(t, jobinput.Sum([]byte(`{"contract":1}`)), submitted.Spec.InputSHA256)
		require.Equal(t, submitted.Spec.InputSHA256, requested.Input)
		input, err := q.Inputs.Read(ctx, workspace, c.Request.Job, submitted.Spec.InputSHA256)
		require.NoError(t, err)
		require.Equal(t, `{"contract":1}`, string(input))
		turns[c.Actor.ID] = submitted.Turn
	}
	require.Equal(t, epoch.UnixMilli()+10_000, turns[web], "its second job is ten seconds behind its first")
	require.Equal(t, epoch.UnixMilli(), turns[api], "another repository does not wait for it")

	c := runJob(t, workspace, web, webRun)
	_, err := q.StartRunJob(ctx, c, make([]byte, jobinput.MaxBytes+1))
	require.ErrorIs(t, err, jobinput.ErrTooLarge)
	c = runJob(t, workspace, web, webRun, func(s *events.JobSpec) { s.Secrets = []string{"NO_SUCH"} })
	_, err = q.StartRunJob(ctx, c, nil)
	require.ErrorIs(t, err, fault.ErrValidation)
	for run, want := range map[events.ID]int{webRun: 2, apiRun: 1} {
		list, err := q.Jobs.Events(ctx, workspace, run, 0, 100)
		require.NoError(t, err)
		require.Len(t, list, 1+len(world.Implementing(1))+want, "what was refused left nothing in the run")
	}
}

// stored returns the events of a job that was started.
func stored(t *testing.T, q queue.Queue, workspace events.ID, c commands.StartRunJob) (events.JobSubmitted, events.RunJobRequested) {
	t.Helper()
	last := func(stream events.ID) events.Event {
		list, err := q.Jobs.Events(t.Context(), workspace, stream, 0, 100)
		require.NoError(t, err)
		return list[len(list)-1].Event
	}
	return last(c.Request.Job).(events.JobSubmitted), last(c.Run).(events.RunJobRequested)
}

// Nobody can fill the queue alone: the jobs of a repository's runs count for the repository.
func TestRequirementsCountForRepository(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	workspace, web, api := newID(), newID(), newID()
	webRun, apiRun := run(t, q, workspace, web, 1), run(t, q, workspace, api, 2)
	start := func(repo, run events.ID, label string) error {
		_, err := q.StartRunJob(t.Context(), runJob(t, workspace, repo, run, func(s *events.JobSpec) {
			s.Requires.Labels = []string{label}
		}), nil)
		return err
	}
	for i := range farmviews.MaxRequirements {
		require.NoError(t, start(web, webRun, fmt.Sprintf("n=%d", i)))
	}
	require.ErrorIs(t, start(web, webRun, "n=one-more"), queue.ErrFull)
	require.NoError(t, start(api, apiRun, "n=one-more"))
}
