package plans_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/farm/jobinput"
)

// jobInputRows are the inputs of 20,000 jobs, made one each minute.
const jobInputRows = `
	insert into job_inputs (workspace_id, job_id, sha256, data, created_at)
	select $acme, id('j', n), sha256(n::text::bytea), n::text::bytea, '2026-01-01'::timestamptz + n * interval '1 minute'
	from generate_series(1, 20000) n`

// askJobInputs stores the input of a job, reads it, and removes the oldest.
func (p *process) askJobInputs(t *testing.T) {
	t.Helper()
	ctx, job := t.Context(), newID()
	in := jobinput.Inputs{DB: p.asks, Now: time.Now}
	sum := done[string](t)(in.Put(ctx, p.acme, job, []byte("{}")))
	require.Equal(t, "{}", string(done[[]byte](t)(in.Read(ctx, p.acme, job, sum))))
	old := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
	require.Equal(t, 3, done[int](t)(in.RemoveOld(ctx, old, 3)))
}
