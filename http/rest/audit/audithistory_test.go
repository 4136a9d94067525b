package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/events/feed"
	"svc/events/store"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/projections"
	"svc/projections/fold"
	"svc/test/callers"
	"svc/test/pgtest"
)

// A randomLog generates random events of a workspace.
type randomLog struct {
	random    *rand.Rand
	workspace events.ID
	at        time.Time
	members   []events.MemberJoined
	invited   []events.ID
	accounts  []events.ServiceAccountCreated
}

func (l *randomLog) id() events.ID { return events.NewID(l.at) }

// next returns a random event and its stream.
func (l *randomLog) next() (events.ID, events.Event) {
	l.at = l.at.Add(time.Duration(l.random.IntN(3)) * time.Millisecond) // some happen at one moment
	switch luck := l.random.IntN(10); {
	case luck < 2 || len(l.members) == 0:
		e := events.MemberJoined{Member: l.id(), User: l.id(), Email: fmt.Sprintf("m%d@x", l.random.IntN(1000)), Role: events.Viewer}
		l.members = append(l.members, e)
		return l.workspace, e
	case luck == 2:
		m := l.members[l.random.IntN(len(l.members))]
		return l.workspace, events.MemberRoleChanged{Member: m.Member, User: m.User, Email: m.Email, From: m.Role, To: events.Maintainer}
	case luck == 3 && len(l.members) > 1:
		i := l.random.IntN(len(l.members))
		m := l.members[i]
		l.members = append(l.members[:i], l.members[i+1:]...)
		return l.workspace, events.MemberRemoved{Member: m.Member, User: m.User, Email: m.Email, Role: m.Role}
	case luck == 4:
		e := events.InvitationSent{Invitation: l.id(), Email: "ann~/é@x", Role: events.Owner, ExpiresAt: l.at.Add(time.Hour)}
		l.invited = append(l.invited, e.Invitation)
		return l.workspace, e
	case luck == 5 && len(l.invited) > 0:
		return l.workspace, events.InvitationRevoked{Invitation: l.invited[l.random.IntN(len(l.invited))], Email: "ann~/é@x"}
	case luck == 6:
		e := events.ServiceAccountCreated{Account: l.id(), Name: "bot",
			Scopes: []events.Scope{events.ReadAPI, events.SubmitJobs}[l.random.IntN(2):], Tail: "tail"}
		l.accounts = append(l.accounts, e)
		return e.Account, e
	case luck == 7 && len(l.accounts) > 0:
		a := l.accounts[l.random.IntN(len(l.accounts))]
		return a.Account, events.ServiceAccountRotated{Account: a.Account, Name: a.Name, Scopes: a.Scopes, FromTail: "tail",
			Tail: fmt.Sprint(l.random.IntN(9999))}
	case luck == 8:
		return l.workspace, events.WorkspaceRenamed{Name: fmt.Sprint("Acme ", l.random.IntN(9)), Slug: "acme"}
	}
	return l.id(), events.RunCostRecorded{Cents: 1, Source: "compute", Quantity: 1}
}

// append appends n events.
func (l *randomLog) append(t *testing.T, db *pgxpool.Pool, n int) {
	t.Helper()
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	defer log.Close()
	versions := map[events.ID]int{}
	first := true
	for range n {
		stream, e := l.next()
		if first {
			stream, e, first = l.workspace, events.WorkspaceCreated{Name: "Acme", Slug: "acme"}, false
			l.members = nil
		}
		_, err := log.Append(t.Context(), &events.Commit{
			Workspace: l.workspace, At: l.at, Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "system"}},
			Writes: []events.Write{{Stream: stream, Version: versions[stream], Events: []events.Event{e}}},
		})
		require.NoError(t, err)
		versions[stream]++
	}
}

func historyServer(db *pgxpool.Pool) *Server {
	follower := fold.NewFollower(db, projections.Followed(), func(string) bool { return false }, slog.New(slog.DiscardHandler))
	return &Server{History: projections.History{DB: db}, Door: door.New(door.Config{
		Primary: follower, Replica: follower, ServiceAccounts: projections.ServiceAccounts{DB: db},
		Now: func() time.Time { return epoch }, Live: feed.New(db, slog.New(slog.DiscardHandler)),
	})}
}

func (s *Server) stateAt(ctx context.Context, t *testing.T, seq int64) string {
	t.Helper()
	a, err := s.getAuditState(ctx, &stateQuery{Seq: seq})
	require.NoError(t, err)
	door.CallerOf(ctx).ReleaseSlots()
	return asJSON(t, a.Body.WorkspaceState)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// Each patch turns the state before its event into the state after it, as computed from the log.
func TestReplayPatchesProduceEachState(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for seed := range uint64(4) {
		l := &randomLog{random: rand.New(rand.NewPCG(seed, 1)), workspace: events.NewID(epoch), at: epoch}
		const total = 150
		l.append(t, db, total)
		s, ctx := historyServer(db), callers.As(t, callers.Owner(l.workspace))
		for _, from := range []int64{1, 2, 1 + l.random.Int64N(total)} {
			to := from + l.random.Int64N(total+1-from)
			out, err := s.replayAudit(ctx, &replayQuery{FromSeq: from, ToSeq: to})
			require.NoError(t, err)
			door.CallerOf(ctx).ReleaseSlots()
			require.Len(t, out.Body.Steps, int(to-from+1))
			state := asJSON(t, out.Body.Before)
			if from > 1 {
				require.JSONEq(t, s.stateAt(ctx, t, from-1), state)
			}
			for i, step := range out.Body.Steps {
				require.Equal(t, from+int64(i), step.Seq)
				patch, err := jsonpatch.DecodePatch([]byte(asJSON(t, step.Patch)))
				require.NoError(t, err)
				after, err := patch.Apply([]byte(state))
				require.NoError(t, err, "%s", asJSON(t, step))
				state = string(after)
				if i%7 == 0 {
					require.JSONEq(t, s.stateAt(ctx, t, step.Seq), state)
				}
			}
			require.JSONEq(t, asJSON(t, out.Body.After), state)
			require.JSONEq(t, s.stateAt(ctx, t, to), state)
		}
	}
}

// The state after the newest event equals the views.
func TestCurrentStateMatchesViews(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	l := &randomLog{random: rand.New(rand.NewPCG(7, 7)), workspace: events.NewID(epoch), at: epoch}
	l.append(t, db, 300)
	state, err := projections.History{DB: db}.At(t.Context(), l.workspace, 300)
	require.NoError(t, err)
	accounts, total, err := projections.ServiceAccounts{DB: db}.Page(t.Context(), l.workspace, 1000, 0)
	require.NoError(t, err)
	require.Equal(t, total, len(state.ServiceAccounts()))
	require.Equal(t, asJSON(t, byID(accounts)), asJSON(t, byID(state.ServiceAccounts())))
	var invited int
	require.NoError(t, db.QueryRow(t.Context(), `select count(*) from invitations where workspace_id = $1`, l.workspace).Scan(&invited))
	require.Equal(t, invited, len(state.Invitations()))
	require.Len(t, state.Members(), len(l.members))
}

func byID(list []projections.ServiceAccount) map[string]stateServiceAccount {
	rows := map[string]stateServiceAccount{}
	for _, a := range list {
		rows[a.ID.String()] = stateRow(a).(stateServiceAccount)
	}
	return rows
}

func TestSeqAtReturnsLastEventAtTime(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	l := &randomLog{random: rand.New(rand.NewPCG(3, 3)), workspace: events.NewID(epoch), at: epoch}
	l.append(t, db, 60)
	h := projections.History{DB: db}
	records, err := store.Page{Logs: store.After(l.workspace, 0), Limit: 60}.Read(t.Context(), db)
	require.NoError(t, err)
	for i, r := range records {
		last := i
		for last+1 < len(records) && records[last+1].At.Equal(r.At) {
			last++
		}
		seq, err := h.SeqAt(t.Context(), l.workspace, r.At, 60)
		require.NoError(t, err)
		require.Equal(t, records[last].Seq, seq)
		seq, err = h.SeqAt(t.Context(), l.workspace, r.At.Add(time.Microsecond), 60)
		require.NoError(t, err)
		require.Equal(t, records[last].Seq, seq)
	}
	seq, err := h.SeqAt(t.Context(), l.workspace, records[0].At.Add(-time.Microsecond), 60)
	require.NoError(t, err)
	require.Zero(t, seq)
}

// Events are stored with microseconds, and answered with milliseconds.
func TestStateAtAnsweredTimeHasItsEvent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	began := epoch.Add(-time.Hour + 456*time.Microsecond)
	l := &randomLog{random: rand.New(rand.NewPCG(5, 5)), workspace: events.NewID(began), at: began}
	l.append(t, db, 20)
	s, ctx := historyServer(db), callers.As(t, callers.Owner(l.workspace))
	seqAt := func(at time.Time) int64 {
		a, err := s.getAuditState(ctx, &stateQuery{At: openapi.OptionalTime{Time: at, Sent: true}})
		require.NoError(t, err)
		door.CallerOf(ctx).ReleaseSlots()
		return a.Body.Seq
	}
	var first time.Time
	for seq := range int64(20) {
		a, err := s.getAuditState(ctx, &stateQuery{Seq: seq + 1})
		require.NoError(t, err)
		door.CallerOf(ctx).ReleaseSlots()
		answered, err := time.Parse(time.RFC3339, string(*a.Body.At))
		require.NoError(t, err)
		require.GreaterOrEqual(t, seqAt(answered), seq+1)
		require.Equal(t, seqAt(answered.Add(456*time.Microsecond)), seqAt(answered))
		if seq == 0 {
			first = answered
		}
		if answered.After(first) {
			require.LessOrEqual(t, seqAt(answered.Add(455*time.Microsecond)), seq, "a more precise time")
		}
	}
}

// A state fails from an unreadable event on, if the event is relevant to it.
func TestStateFailsAfterUnreadableEvent(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	l := &randomLog{random: rand.New(rand.NewPCG(4, 4)), workspace: events.NewID(epoch), at: epoch}
	l.append(t, db, 20)
	h := projections.History{DB: db}
	for seq, kind := range map[int]string{11: "farm.built", 15: "member.knighted"} {
		_, err := db.Exec(t.Context(), `update events set kind = $3 where workspace_id = $1 and seq = $2`, l.workspace, seq, kind)
		require.NoError(t, err)
	}
	for _, seq := range []int64{10, 11, 14} {
		state, err := h.At(t.Context(), l.workspace, seq)
		require.NoError(t, err)
		require.Equal(t, seq, state.Seq)
	}
	for _, seq := range []int64{15, 20} {
		_, err := h.At(t.Context(), l.workspace, seq)
		require.ErrorIs(t, err, projections.ErrUnreadable)
	}
	_, err := db.Exec(t.Context(), `delete from events where workspace_id = $1 and seq = 9`, l.workspace)
	require.NoError(t, err)
	_, err = h.At(t.Context(), l.workspace, 9)
	require.ErrorIs(t, err, projections.ErrUnreadable)
}
