package dispatch_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/wire"
)

// A job goes from queued to a sealed log.
func TestJobRunsFromQueueToSealedLog(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.replica()
	runner := s.enrol(r, "builder", 2, 0)
	a := dial(t, r, s.ws, runner)
	w := a.greet()
	require.Equal(t, runner.String(), w.Runner)
	require.Equal(t, 90, w.LeaseSeconds)

	job := s.submit(r, func(j *events.JobSpec) {
		j.Repo = &events.JobRepo{ID: newID(), Name: "acme/web", Ref: "refs/heads/main"}
	})
	got, epoch, assign := a.assigned()
	require.Equal(t, job, got)
	require.Equal(t, 1, epoch)
	require.Equal(t, "tests", assign.Name)
	require.Equal(t, "https://code.example/acme/web.git", assign.Source.URL)
	require.Equal(t, job.String(), assign.Env["SVC_JOB_ID"])
	require.Len(t, assign.Steps, 2)

	a.send(wire.Accept{}, job, epoch, 0)
	a.send(wire.Event{Kind: wire.EventStarted}, job, epoch, 1)
	a.send(wire.Event{Kind: wire.EventStepStarted, Step: 0}, job, epoch, 2)
	a.chunk(job, epoch, 3, 0, "hello ")
	a.chunk(job, epoch, 4, 6, "world\n")
	a.send(wire.Event{Kind: wire.EventStepFinished, Step: 0, Outcome: "succeeded"}, job, epoch, 5)
	a.send(wire.Event{Kind: wire.EventNotice, Text: "a notice"}, job, epoch, 6)
	a.acked(6)
	list, err := r.logs.Read(t.Context(), s.ws, job, epoch, 0, 100)
	require.NoError(t, err)
	require.Len(t, list, 2)
	a.send(wire.Heartbeat{Seq: 1, Free: 1, Held: []wire.Held{{Job: job.String(), Epoch: epoch}},
		Jobs: []wire.Usage{{Job: job.String(), CPUMs: 5}}}, events.ID{}, 0, 0)
	ack := body[wire.HeartbeatAck](t, a.next(wire.TypeHeartbeatAck))
	require.Empty(t, ack.Held)
	a.send(wire.Event{Kind: wire.EventStepStarted, Step: 1}, job, epoch, 7)
	a.send(wire.Event{Kind: wire.EventStepFinished, Step: 1, Outcome: "succeeded"}, job, epoch, 8)
	a.send(finished("hello world\n"), job, epoch, 9)
	a.acked(9)
	require.Equal(t, events.JobStateSucceeded, s.state(job))
	r.SweepOnce(t.Context())
	require.Equal(t, []string{
		"submitted", "leased", "accepted", "started", "step_started", "step_finished", "step_started", "step_finished", "finished",
		"log_sealed",
	}, s.kinds(job))
	var begins string // of the output of each step: offset and line
	require.NoError(t, s.db.QueryRow(t.Context(), `
		select string_agg(concat_ws(' ', data ->> 'logFrom', data ->> 'logLine'), ', ' order by seq) from events
		where stream = $1 and kind = 'job.step_started'`, job).Scan(&begins))
	require.Equal(t, "1, 12 2", begins)
	var sealed events.JobLogSealed
	var text []byte
	require.NoError(t, s.db.QueryRow(t.Context(), `select data from events where stream = $1 and kind = 'job.log_sealed'`, job).Scan(&text))
	require.NoError(t, json.Unmarshal(text, &sealed))
	require.Equal(t, "verified", sealed.Integrity)
	require.EqualValues(t, 2, sealed.Chunks)
}
