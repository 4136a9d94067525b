package fair

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/fault"
	"svc/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func newID() events.ID { return events.NewID(time.Now()) }

// fill takes slots for holders until one is refused.
func fill(t *testing.T, s *Semaphore, h func() Holder) (held int, refusal error) {
	t.Helper()
	for {
		if _, err := s.Acquire(t.Context(), h()); err != nil {
			return held, err
		}
		held++
	}
}

// A person in many workspaces, with many service accounts in each, holds no more than a quarter.
// The same goes for a workspace of many people.
func TestHolderHasAtMostAQuarter(t *testing.T) {
	for _, slots := range []int{1, 2, 3, 4, 7, 8, 100} {
		one := newID()
		for name, h := range map[string]func() Holder{
			"a person":    func() Holder { return Holder{Caller: newID(), Person: one, Workspace: newID()} },
			"a workspace": func() Holder { return Holder{Caller: newID(), Person: newID(), Workspace: one} },
			"a caller":    func() Holder { return Holder{Caller: one} },
		} {
			s := New(Bound{Slots: slots, Retry: 7 * time.Second})
			held, err := fill(t, s, h)
			require.Equal(t, max(slots/4, 1), held, "%s of %d", name, slots)
			require.ErrorIs(t, err, ErrShare)
			require.Equal(t, 7*time.Second, fault.As(err).Wait)
		}
	}
}

func TestCallerLimitBelowShare(t *testing.T) {
	s, one, workspace := New(Bound{Slots: 100, PerCaller: 3}), newID(), newID()
	held, err := fill(t, s, func() Holder { return Holder{Caller: one, Person: one, Workspace: workspace} })
	require.Equal(t, 3, held)
	require.ErrorIs(t, err, ErrShare)
	held, _ = fill(t, s, func() Holder { return Holder{Caller: newID(), Person: newID(), Workspace: workspace} })
	require.Equal(t, 22, held, "the others of the workspace")
}

// However many holders cooperate, the last quarter stays free for those who hold none.
func TestLastQuarterIsReserved(t *testing.T) {
	const slots = 40
	s := New(Bound{Slots: slots})
	greedy := make([]Holder, 8)
	for i := range greedy {
		greedy[i] = Holder{Caller: newID(), Person: newID(), Workspace: newID()}
	}
	taken := 0
	for i := 0; ; i++ {
		if _, err := s.Acquire(t.Context(), greedy[i%len(greedy)]); err != nil {
			require.ErrorIs(t, err, fault.ErrBusy, "it is not one's own share that is used up")
			break
		}
		taken++
	}
	require.Equal(t, slots-slots/4, taken)
	for range slots / 4 {
		_, err := s.Acquire(t.Context(), Holder{Caller: newID(), Person: newID(), Workspace: newID()})
		require.NoError(t, err)
	}
	_, err := s.Acquire(t.Context(), Holder{Caller: newID(), Person: newID(), Workspace: newID()})
	require.ErrorIs(t, err, fault.ErrBusy)
	_, _, refused := s.Usage()
	require.Equal(t, Refused{Full: 2}, refused)
}

func TestReleasedSlotIsFree(t *testing.T) {
	s, h := New(Bound{Slots: 4}), Holder{Caller: newID(), Person: newID(), Workspace: newID()}
	for range 10 {
		slot, err := s.Acquire(t.Context(), h)
		require.NoError(t, err)
		_, err = s.Acquire(t.Context(), h)
		require.ErrorIs(t, err, ErrShare)
		slot.Release()
	}
	held, waiting, _ := s.Usage()
	require.Zero(t, held)
	require.Zero(t, waiting)
	require.Empty(t, s.slots.byParty, "nobody is remembered")
}

// Many goroutines take and wait for slots at once. No limit is exceeded, and all slots are free at
// the end.
func TestLimitsUnderConcurrency(t *testing.T) {
	s := New(Bound{Slots: 8, Queue: 64, Wait: 50 * time.Millisecond})
	holders := make([]Holder, 6)
	for i := range holders {
		holders[i] = Holder{Caller: newID(), Person: newID(), Workspace: newID()}
	}
	var mu sync.Mutex
	held, all, done := map[Holder]int{}, 0, 0
	count := func(h Holder, n int) {
		mu.Lock()
		defer mu.Unlock()
		held[h] += n
		all += n
		if held[h] > 2 || all > 8 {
			t.Errorf("%d of one, %d in all", held[h], all)
		}
	}
	var group sync.WaitGroup
	for i := range 48 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for range 200 {
				h := holders[random.IntN(len(holders))]
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(5))*time.Millisecond)
				slot, err := s.Acquire(ctx, h)
				if cancel(); err != nil {
					continue
				}
				count(h, 1)
				if random.IntN(10) == 0 {
					<-time.After(time.Millisecond)
				}
				count(h, -1)
				slot.Release()
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	require.Positive(t, done)
	slots, waiting, _ := s.Usage()
	require.Zero(t, slots)
	require.Zero(t, waiting)
	require.Empty(t, s.queue)
	require.Empty(t, s.waiting.byParty)
}

// A slot that counts no longer against the workspace makes room for others of it, not for its caller.
func TestReleaseWorkspace(t *testing.T) {
	s := New(Bound{Slots: 16, PerCaller: 3, Queue: 4, Wait: time.Minute})
	workspace, other := newID(), newID()
	slow := Holder{Caller: newID(), Person: newID(), Workspace: workspace}
	quick := Holder{Caller: newID(), Person: newID(), Workspace: workspace}
	var held []*Slot
	for range 3 {
		slot, err := s.Acquire(t.Context(), slow)
		require.NoError(t, err)
		held = append(held, slot)
	}
	slot, err := s.Acquire(t.Context(), quick)
	require.NoError(t, err)
	held = append(held, slot)
	waiting := make(chan *Slot)
	go func() {
		slot, _ := s.Acquire(t.Context(), quick)
		waiting <- slot
	}()
	require.Eventually(t, func() bool { _, n, _ := s.Usage(); return n == 1 }, time.Minute, time.Millisecond)
	held[0].ReleaseWorkspace()
	held[0].ReleaseWorkspace() // the second time for nothing
	next := <-waiting
	require.NotNil(t, next, "another of the workspace")
	held = append(held, next)
	n, _, _ := s.Usage()
	require.Equal(t, 5, n, "it is still in use")
	require.ErrorIs(t, s.refusal(slow.parties(), 1, false), ErrShare)
	require.Nil(t, s.refusal(Holder{Caller: newID(), Workspace: other}.parties(), 1, false))
	for _, slot := range held {
		slot.Release()
	}
	n, _, _ = s.Usage()
	require.Zero(t, n)
	require.Empty(t, s.slots.byParty)
}
