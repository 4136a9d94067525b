package fair

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"svc/fault"
)

func waiting(t *testing.T, s *Semaphore, h Holder) <-chan error {
	t.Helper()
	got := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), h)
		got <- err
	}()
	synctest.Wait()
	return got
}

func person() Holder { return Holder{Caller: newID(), Person: newID(), Workspace: newID()} }

// Slots are granted in order of arrival. A waiter that its share blocks does not block the others.
func TestQueueGrantsFirstEligibleWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, greedy, other, third := New(Bound{Slots: 4, Queue: 16, Wait: time.Minute}), person(), person(), person()
		slot, err := s.Acquire(t.Context(), greedy)
		require.NoError(t, err)
		first := waiting(t, s, greedy)
		require.Empty(t, first, "it waits for its own")
		require.NoError(t, <-waiting(t, s, other), "there is room")
		otherAgain := waiting(t, s, other)
		require.NoError(t, <-waiting(t, s, third))
		require.NoError(t, <-waiting(t, s, person()))
		last := waiting(t, s, person())
		require.Empty(t, last, "all are taken")
		slot.Release()
		require.NoError(t, <-first)
		require.Empty(t, otherAgain)
		(&Slot{semaphore: s, parties: other.parties(), n: 1, begun: time.Now()}).Release()
		require.NoError(t, <-otherAgain)
		(&Slot{semaphore: s, parties: other.parties(), n: 1, begun: time.Now()}).Release()
		require.NoError(t, <-last)
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, greedy := New(Bound{Slots: 4, Queue: 8, Wait: time.Minute}), person()
		_, err := s.Acquire(t.Context(), greedy)
		require.NoError(t, err)
		queued := []<-chan error{waiting(t, s, greedy), waiting(t, s, greedy)}
		begun := time.Now()
		_, err = s.Acquire(t.Context(), greedy)
		require.ErrorIs(t, err, ErrShare, "a quarter of the queue is theirs")
		for range 3 {
			require.NoError(t, <-waiting(t, s, person()))
		}
		for range 6 {
			queued = append(queued, waiting(t, s, person()))
		}
		_, err = s.Acquire(t.Context(), person())
		require.ErrorIs(t, err, fault.ErrBusy)
		require.Zero(t, time.Since(begun), "at once")

		for i, got := range queued {
			err := <-got
			require.Equal(t, time.Minute, time.Since(begun))
			if i < 2 {
				require.ErrorIs(t, err, ErrShare, "their own was in the way")
			} else {
				require.ErrorIs(t, err, fault.ErrBusy)
			}
		}
		_, left, refused := s.Usage()
		require.Zero(t, left)
		require.Equal(t, Refused{Share: 3, Full: 7}, refused)
	})
}

func TestCancelledWaiterLeavesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := New(Bound{Slots: 4, Queue: 8, Wait: time.Minute}), person()
		slot, err := s.Acquire(t.Context(), h)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Acquire(ctx, h)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		slot.Release()
		held, left, refused := s.Usage()
		require.Zero(t, held)
		require.Zero(t, left)
		require.Zero(t, refused, "nobody refused them")
	})
}

// A holder that takes several slots at once waits until as many are free for it, and does not hold
// up others meanwhile. Its share counts slots too.
func TestAcquireSeveralSlotsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, one, other := New(Bound{Slots: 16, Queue: 8, Wait: time.Minute}), person(), person()
		slot, err := s.AcquireN(t.Context(), one, 3)
		require.NoError(t, err)
		held := func() int { n, _, _ := s.Usage(); return n }
		require.Equal(t, 3, held())
		two := make(chan error, 1)
		go func() {
			_, err := s.AcquireN(t.Context(), one, 2)
			two <- err
		}()
		synctest.Wait()
		require.Empty(t, two, "one slot of the share is left")
		_, err = s.AcquireN(t.Context(), one, 1)
		require.NoError(t, err)
		_, err = s.AcquireN(t.Context(), other, 4)
		require.NoError(t, err)
		slot.Release()
		require.NoError(t, <-two)
		require.Equal(t, 3+4, held())
		_, err = s.AcquireN(t.Context(), person(), 5)
		require.ErrorIs(t, err, ErrShare, "nobody gets more than their share")
	})
}

// A holder is not idle with one semaphore while others request slots of another that shares its activity.
func TestSemaphoresShareActivity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Bound{Slots: 8, IdleAfter: time.Second, Activity: &Activity{}}
		reads, writes, one := New(b), New(b), person()
		slot, err := reads.Acquire(t.Context(), person())
		require.NoError(t, err)
		held, _ := fill(t, writes, func() Holder { return one })
		require.Equal(t, 2, held)
		slot.Release()
		time.Sleep(time.Second)
		held, _ = fill(t, writes, func() Holder { return one })
		require.Equal(t, 4, held, "six in total")
	})
}

// Two people without a workspace are not related.
func TestHoldersWithoutWorkspaceAreUnrelated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, one, other := New(Bound{Slots: 8, IdleAfter: time.Second}), Holder{Person: newID()}, Holder{Person: newID()}
		_, err := s.Acquire(t.Context(), other)
		require.NoError(t, err)
		held, err := fill(t, s, func() Holder { return one })
		require.Equal(t, 2, held)
		require.ErrorIs(t, err, ErrShare)
	})
}

// A holder without competition may use all slots except the reserve, which a newcomer finds free.
// From then on everybody has a quarter, until they are alone again.
func TestIdleHolderMayUseMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, one, other := New(Bound{Slots: 8, IdleAfter: time.Second}), person(), person()
		colleague := Holder{Person: newID(), Workspace: one.Workspace}
		held, err := fill(t, s, func() Holder { return one })
		require.Equal(t, 6, held)
		require.ErrorIs(t, err, ErrShare)
		_, err = s.Acquire(t.Context(), colleague)
		require.ErrorIs(t, err, ErrShare, "a workspace is alone together")
		slot, err := s.Acquire(t.Context(), other)
		require.NoError(t, err)
		for range 5 {
			(&Slot{semaphore: s, parties: one.parties(), n: 1, begun: time.Now()}).Release()
		}
		held, err = fill(t, s, func() Holder { return one })
		require.Equal(t, 1, held, "two in all")
		require.ErrorIs(t, err, ErrShare)

		slot.Release()
		time.Sleep(time.Second)
		held, _ = fill(t, s, func() Holder { return one })
		require.Equal(t, 4, held, "six in all")
	})
}

func TestPartyLimitBelowQuarter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, one, other := New(Bound{Slots: 64, PerParty: 4, IdleAfter: time.Second}), person(), person()
		_, err := s.Acquire(t.Context(), other)
		require.NoError(t, err)
		held, _ := fill(t, s, func() Holder { return one })
		require.Equal(t, 4, held)
		time.Sleep(time.Second)
		held, _ = fill(t, s, func() Holder { return one })
		require.Equal(t, 43, held, "forty-eight with that of the other one")
	})
}

// A holder with more waiting uses its slots a quarter of the time, and all of the time if it has no
// competition.
func TestSlotsCoolDownWhileHolderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, one, other := New(Bound{Slots: 4, Queue: 16, Wait: time.Minute, IdleAfter: time.Second, MaxCooldown: 10 * time.Second}), person(),
			person()
		use := func(h Holder, d time.Duration) {
			t.Helper()
			slot, err := s.Acquire(t.Context(), h)
			require.NoError(t, err)
			time.Sleep(d)
			slot.Release()
		}
		held := func() int { n, _, _ := s.Usage(); return n }
		use(one, time.Second)
		require.Zero(t, held(), "nobody waits")

		use(other, 0)
		slot, err := s.Acquire(t.Context(), one)
		require.NoError(t, err)
		next := waiting(t, s, one)
		use(other, 0)
		time.Sleep(500 * time.Millisecond)
		slot.Release()
		require.Empty(t, next, "it rests")
		time.Sleep(1499 * time.Millisecond)
		require.Empty(t, next)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.NoError(t, <-next)

		time.Sleep(time.Second) // without competition
		more := []<-chan error{waiting(t, s, one), waiting(t, s, one), waiting(t, s, one)}
		require.NoError(t, <-more[0])
		require.NoError(t, <-more[1])
		require.Empty(t, more[2])
		(&Slot{semaphore: s, holder: one, parties: one.parties(), n: 1, begun: time.Now().Add(-time.Minute)}).Release()
		synctest.Wait()
		require.NoError(t, <-more[2], "at once")
	})
}

// A cooldown is no longer than the bound says.
func TestCooldownIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, one := New(Bound{Slots: 4, Queue: 16, Wait: time.Minute, MaxCooldown: time.Second}), person()
		slot, err := s.Acquire(t.Context(), one)
		require.NoError(t, err)
		next := waiting(t, s, one)
		time.Sleep(30 * time.Second)
		slot.Release()
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, <-next)
	})
}
