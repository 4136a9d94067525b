package proof

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/store"
)

// authoredWorld returns a world whose store appends events with MACs that the prover can verify.
func authoredWorld(t *testing.T) (*world, *Prover) {
	t.Helper()
	w := newWorld(t)
	w.log.Authenticate(ringOf(t, "a"))
	p := w.prover(t)
	p.RequireAuthorsAfter(0)
	return w, p
}

// appendWithoutMACs appends like an older build, without MACs.
func (w *world) appendWithoutMACs(t *testing.T, workspace events.ID, n int) {
	t.Helper()
	log := store.New(w.db, nil, func(events.ID, int64) {})
	defer log.Close()
	(&world{w.db, log}).append(t, workspace, n)
}

func (w *world) hasAuthenticatedLine(t *testing.T, workspace events.ID) bool {
	t.Helper()
	var says bool
	require.NoError(t, w.db.QueryRow(t.Context(),
		`select note like E'%\nauthenticated\n\n%' from proof_checkpoints where workspace_id = $1 order by size desc limit 1`,
		workspace).Scan(&says))
	return says
}

// forge appends an event by SQL, in the form of a commit.
const forge = `
	with h as (update logs set head = head + 1 where workspace_id = $1 returning head)
	insert into events select workspace_id, h.head, gen_random_uuid(), gen_random_uuid(), 1, kind, schema, at, meta, data
	from events, h where workspace_id = $1 and seq = 5`

// An event that was appended or changed by SQL before it was signed is never signed, and is
// reported.
func TestForgedEventsAreNotSigned(t *testing.T) {
	t.Parallel()
	const reason = "the record was not appended by this service"
	for name, c := range map[string]struct {
		sql string
		seq int64
	}{
		"a row of their own": {forge, 41},
		"with a MAC of another": {forge +
			`; update events set mac = (select mac from events where workspace_id = $1 and seq = 5) where workspace_id = $1 and mac = ''`, 41},
		"a copy under another id": {`with h as (update logs set head = head + 1 where workspace_id = $1 returning head) insert into events
			select workspace_id, h.head, gen_random_uuid(), gen_random_uuid(), version, kind, schema, at, meta, data, mac from events, h
				where workspace_id = $1 and seq = 5`, 41},
		"a changed text": {`update events set data = replace(data::text, 'compute', 'model')::json where workspace_id = $1 and seq = 37`,
			37},
		"a changed actor": {`update events set meta = replace(meta::text, 'system', 'nobody')::json where workspace_id = $1 and seq = 31`,
			31},
		"another stream":          {`update events set stream = gen_random_uuid() where workspace_id = $1 and seq = 40`, 40},
		"another place in it":     {`update events set version = version + 1 where workspace_id = $1 and seq = 40`, 40},
		"another kind":            {`update events set kind = 'run.queued' where workspace_id = $1 and seq = 33`, 33},
		"no MAC":                  {`update events set mac = '' where workspace_id = $1 and seq = 35`, 35},
		"a MAC that is too short": {`update events set mac = substr(mac, 1, 9) where workspace_id = $1 and seq = 35`, 35},
		"a MAC of an unknown key": {`update events set mac = sha256(mac) where workspace_id = $1 and seq = 35`, 35},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := authoredWorld(t)
			workspace := newID()
			w.append(t, workspace, 30)
			catchUp(t, p, workspace)
			require.True(t, w.hasAuthenticatedLine(t, workspace))
			w.append(t, workspace, 10)
			for _, sql := range strings.Split(c.sql, ";") {
				w.exec(t, sql, workspace)
			}
			more, err := []events.ID{workspace}, error(nil)
			for len(more) > 0 && err == nil {
				more, err = p.takePage(t.Context(), more)
			}
			_, err = p.takePage(t.Context(), []events.ID{workspace})
			require.ErrorIs(t, err, errForeignAuthor)
			k, err := p.signingKey(t.Context())
			require.NoError(t, err)
			report := w.check(t, workspace, Check{VerifierKey: k.public}) // does not wait for signatures
			require.NoError(t, p.reportAuthor(t.Context(), k, &report))
			require.Equal(t, &Bad{c.seq, reason}, report.Bad)
			require.EqualValues(t, c.seq-1, report.Size, "what comes before is signed for")
		})
	}
}

// Prover.Verify reports the record after the time for signing is over.
func TestVerifyReportsForgedEvent(t *testing.T) {
	t.Parallel()
	w, p := authoredWorld(t)
	workspace := newID()
	w.append(t, workspace, 30)
	catchUp(t, p, workspace)
	w.exec(t, forge, workspace)
	report, err := p.Verify(t.Context(), workspace, "", nil)
	require.NoError(t, err)
	require.Equal(t, &Bad{31, "the record was not appended by this service"}, report.Bad)
}

// Events of older builds have no MAC, and are signed until the log has events with one.
func TestLogRequiresMACsOnceItHasOne(t *testing.T) {
	t.Parallel()
	w, p := authoredWorld(t)
	workspace := newID()
	w.appendWithoutMACs(t, workspace, 10)
	catchUp(t, p, workspace)
	require.False(t, w.hasAuthenticatedLine(t, workspace))
	w.appendWithoutMACs(t, workspace, 2)
	w.append(t, workspace, 3)
	catchUp(t, p, workspace)
	require.True(t, w.hasAuthenticatedLine(t, workspace))
	require.Nil(t, w.verify(t, workspace).Bad)

	w.appendWithoutMACs(t, workspace, 1)
	_, err := p.takePage(t.Context(), []events.ID{workspace})
	require.ErrorIs(t, err, errForeignAuthor)
	again := w.prover(t) // requires none itself, as in the first hour of a process
	_, err = again.takePage(t.Context(), []events.ID{workspace})
	require.ErrorIs(t, err, errForeignAuthor, "the signed checkpoint says so")
	w.exec(t, `update proof_checkpoints set note = replace(note, E'authenticated\n', '') where workspace_id = $1`, workspace)
	_, err = again.takePage(t.Context(), []events.ID{workspace})
	require.ErrorIs(t, err, errNotSigned, "nobody takes that out")
}

// Logs require no MACs while processes of an older build may still append.
func TestLogRequiresNoMACsDuringRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log.Authenticate(ringOf(t, "a"))
	p, workspace := w.prover(t), newID()
	p.RequireAuthors()
	w.append(t, workspace, 3)
	catchUp(t, p, workspace)
	w.appendWithoutMACs(t, workspace, 3)
	catchUp(t, p, workspace)
	require.False(t, w.hasAuthenticatedLine(t, workspace))
	require.Nil(t, w.verify(t, workspace).Bad)
	p.authors.from = p.authors.from.Add(-settleTime)
	w.append(t, workspace, 1)
	catchUp(t, p, workspace)
	require.True(t, w.hasAuthenticatedLine(t, workspace))
	require.EqualValues(t, 7, w.verify(t, workspace).Size)
}

// MACs under a lost key cannot be checked. Later events need their author's MAC as before.
func TestReplacementSignsUncheckableEvents(t *testing.T) {
	t.Parallel()
	w, p := authoredWorld(t)
	workspace := newID()
	w.append(t, workspace, 30)
	catchUp(t, p, workspace)
	lost := w.verify(t, workspace).VerifierKey
	w.append(t, workspace, 5)
	log := store.New(w.db, nil, func(events.ID, int64) {})
	defer log.Close()
	log.Authenticate(ringOf(t, "b"))
	later := &world{w.db, log}
	require.Nil(t, later.replaceKey(t, "b", lost, workspace).Bad)
	p = New(w.db, ringOf(t, "b"), "svc.example.com", always, slog.New(slog.DiscardHandler))
	later.append(t, workspace, 4)
	catchUp(t, p, workspace)
	require.EqualValues(t, 40, w.verify(t, workspace).Size)
	require.True(t, w.hasAuthenticatedLine(t, workspace))
	w.exec(t, forge, workspace)
	_, err := p.takePage(t.Context(), []events.ID{workspace})
	require.ErrorIs(t, err, errForeignAuthor)
}
