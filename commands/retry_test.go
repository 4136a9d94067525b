package commands_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/fault"
)

// runConcurrently does n things at the same time, alternating between the replicas, and requires
// that all succeed.
func (s *system) runConcurrently(t *testing.T, n int, do func(r replica, i int) error) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = do([]replica{s.replica, s.other}[i%2], i)
		})
	}
	close(start)
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// Issues that are created at the same moment get different numbers, without a gap.
func TestConcurrentIssueNumbers(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.queue(t, 3)
	const n = 200
	m.runConcurrently(t, n, func(r replica, _ int) error {
		_, err := r.QueueIssue(t.Context(), m.issue("Sort labels"))
		return err
	})
	var numbers, want []int
	for _, e := range m.history(t, m.id, 1) {
		if e, ok := e.(events.RunQueued); ok {
			numbers = append(numbers, e.IssueNumber)
		}
	}
	for i := range n + 1 {
		want = append(want, 3+i)
	}
	require.Equal(t, want, numbers, "in the order in which they came")
}

// A number that an active run has is skipped, whatever the largest is.
func TestTakenIssueNumberIsSkipped(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	for _, taken := range []int{7, 8, 9} {
		m.queue(t, taken)
	}
	queue := m.issue("Sort labels")
	m.Views.LargestIssue = func(context.Context, events.ID, events.ID, commands.IssueOf) (int, error) { return 6, nil }
	_, err := m.QueueIssue(t.Context(), queue)
	require.NoError(t, err)
	history := m.history(t, m.id, 1)
	require.Equal(t, 10, history[len(history)-1].(events.RunQueued).IssueNumber)
}

// Concurrent changes of one stream through both replicas happen one after the other.
func TestConcurrentChangesOfOneStream(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	const n = 200
	before := m.head(t, m.id)
	m.runConcurrently(t, n, func(r replica, i int) error {
		_, err := r.SendInvitation(t.Context(), commands.SendInvitation{
			Meta: m.owner.in(m.id), Invitation: newID(), Email: fmt.Sprintf("guest-%d@mail.example", i), Role: events.Viewer,
		})
		return err
	})
	require.Equal(t, before+n, m.head(t, m.id))

	run := m.queue(t, 1)
	before = m.head(t, m.id)
	m.runConcurrently(t, n, func(r replica, i int) error {
		cost := events.RunCostRecorded{Cents: 1, Key: fmt.Sprintf("farm/%d", i)}
		_, err := r.RecordRun(t.Context(), commands.RecordRun{Meta: systems(m.id), Run: run, Facts: []events.Event{cost}})
		return err
	})
	require.Equal(t, before+n, m.head(t, m.id))
}

// A role changes all the time while others issue commands that depend on roles. They never
// get a conflict.
func TestChangesThatDependOnAnotherStream(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	const n = 60
	var accounts []events.ID
	for i := range n {
		account, _ := m.account(t, fmt.Sprintf("bot-%d", i))
		accounts = append(accounts, account)
	}
	m.runConcurrently(t, 4*n, func(r replica, i int) error {
		if i%4 > 1 {
			_, err := r.RotateServiceAccount(t.Context(), rotate(m.maintainer, m.id, accounts[i/4]))
			return err
		}
		_, err := r.UpdateMember(t.Context(), commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, ApproveLoops: ptr(i%2 == 0)})
		return err
	})
}

// A replica that changes a stream without pause does not starve the other one.
func TestBusyReplicaDoesNotStarveOther(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	change := func(r replica) error {
		id := newID()
		_, err := r.SendInvitation(t.Context(),
			commands.SendInvitation{Meta: m.owner.in(m.id), Invitation: id, Email: id.String() + "@mail.example", Role: events.Viewer})
		return err
	}
	over := make(chan struct{})
	var busy sync.WaitGroup
	for range 30 {
		busy.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := change(m.replica); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var others []int64 // changes by the busy replica while the other one waited
	for range 20 {
		before := m.head(t, m.id)
		require.NoError(t, change(m.other))
		others = append(others, m.head(t, m.id)-before)
	}
	close(over)
	busy.Wait()
	slices.Sort(others)
	require.Less(t, others[len(others)/2], int64(40), "of the other replica's, while one waits: %v", others)
}

// A slowLog blocks loading one stream until it is released.
type slowLog struct {
	commands.Log
	stream events.ID
	asked  chan struct{}
	free   chan struct{}
}

func (l *slowLog) Load(ctx context.Context, workspace, stream events.ID, version int) ([]events.Record, error) {
	if stream == l.stream {
		l.asked <- struct{}{}
		<-l.free
	}
	return l.Log.Load(ctx, workspace, stream, version)
}

// A command that waits for one run blocks neither another run nor the members.
func TestStreamsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	slow, other := m.queue(t, 1), m.queue(t, 2)
	l := &slowLog{Log: m.log, stream: slow, asked: make(chan struct{}, 1), free: make(chan struct{})}
	h := commands.New(l, m.clock.now)
	done := make(chan error)
	go func() {
		_, err := h.CancelRun(t.Context(), commands.CancelRun{Meta: m.owner.in(m.id), Run: slow})
		done <- err
	}()
	<-l.asked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := h.CancelRun(ctx, commands.CancelRun{Meta: m.owner.in(m.id), Run: other})
	require.NoError(t, err)
	_, err = h.UpdateMember(ctx, commands.UpdateMember{Meta: m.owner.in(m.id), Member: m.viewer.member, Role: ptr(events.Maintainer)})
	require.NoError(t, err)
	close(l.free)
	require.NoError(t, <-done)
}

// A command that does not get its turn in time returns "busy", and has no effect later.
func TestWaitingTooLongReturnsBusy(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	run := m.queue(t, 1)
	l := &slowLog{Log: m.log, stream: run, asked: make(chan struct{}, 1), free: make(chan struct{})}
	h := commands.New(l, m.clock.now)
	cancel := commands.CancelRun{Meta: m.owner.in(m.id), Run: run, Reason: "No longer needed."}
	done := make(chan error)
	go func() {
		_, err := h.CancelRun(t.Context(), cancel)
		done <- err
	}()
	<-l.asked
	before := m.head(t, m.id)
	ctx, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	_, err := h.CancelRun(ctx, cancel)
	require.ErrorIs(t, err, fault.ErrBusy)
	require.ErrorContains(t, err, "commands.CancelRun in "+m.id.String())
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = h.CancelRun(gone, cancel)
	require.ErrorIs(t, err, context.Canceled, "who has gone hears nothing")
	require.Equal(t, before, m.head(t, m.id))
	close(l.free)
	require.NoError(t, <-done)
}
