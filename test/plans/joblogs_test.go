package plans_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/farm/joblog"
)

// jobLogRows are the leases of the jobs that runners have or had, which were sealed in the last
// 90 days and some before, and the logs of 200, in 500 chunks each, and of the oldest.
const jobLogRows = `
	insert into job_leases (workspace_id, job_id, epoch, runner_id, renewed_at, fenced, finished, last_seq, log_bytes, log_chunks, sealed_at)
	select workspace_id, job_id, epoch, runner_id, '2036-01-01', state <> 'running', state <> 'running', 502, 2000, 500,
		case when state <> 'running' then '2026-08-22 11:00Z'::timestamptz + (turn - 12000) * interval '70 seconds' end
	from jobs where runner_id is not null;
	insert into job_logs (workspace_id, job_id, epoch, from_byte, at, data)
	select $acme, id('j', 111800 + job), 1, 4 * (n - 1), '2026-01-01', 'abcd'::bytea
	from generate_series(1, 200) job, generate_series(1, 500) n;
	insert into job_logs (workspace_id, job_id, epoch, from_byte, at, data)
	select $acme, id('j', 12000 + job), 1, 4 * (n - 1), '2026-01-01', 'abcd'::bytea
	from generate_series(1, 150) job, generate_series(1, 100) n;
	insert into job_logs (workspace_id, job_id, epoch, from_byte, at, data)
	select id('w', n), id('j', n), 1, 0, '2026-01-01', 'abcd'::bytea from generate_series(1, $others) n`

// askJobLogs reads a log from its beginning and from within, says how long some are, and waits
// until it is seen that one has grown.
func (p *process) askJobLogs(t *testing.T) {
	t.Helper()
	ctx, job := t.Context(), idOf(t, 'j', 111_802)
	for _, from := range []int64{0, 1001, 2000} {
		list := done[[]joblog.Chunk](t)(p.logs.Read(ctx, p.acme, job, 1, from, 1<<20))
		if from < 2000 {
			require.EqualValues(t, 2000, list[len(list)-1].End())
		}
	}
	require.EqualValues(t, 2000, done[int64](t)(p.logs.Size(ctx, p.acme, job, 1)))
	epochs := map[events.ID]int{job: 1, idOf(t, 'j', 111_810): 1, newID(): 1}
	require.Len(t, done[map[events.ID]joblog.Size](t)(p.logs.Sizes(ctx, p.acme, epochs)), 2)
	watch := p.logs.Watch(p.acme, job)
	defer watch.Close()
	select {
	case <-watch.Changed:
	case <-time.After(time.Minute):
		require.Fail(t, "nobody looks at the log")
	}
}
