package quota

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

// Those who wait come in the order in which they came; who may have none does
// not hold up the others.
func TestTheFirstInTheQueueWhoMayIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, greedy, other, third := New(Bound{Slots: 4, Queue: 16, Wait: time.Minute}), person(), person(), person()
		giveBack, err := s.Acquire(t.Context(), greedy)
		require.NoError(t, err)
		first := waiting(t, s, greedy)
		require.Empty(t, first, "it waits for its own")
		require.NoError(t, <-waiting(t, s, other), "there is room")
		otherAgain := waiting(t, s, other)
		require.NoError(t, <-waiting(t, s, third))
		require.NoError(t, <-waiting(t, s, person()))
		last := waiting(t, s, person())
		require.Empty(t, last, "all are taken")
		giveBack()
		require.NoError(t, <-first)
		require.Empty(t, otherAgain)
		s.release(other.parties())
		require.NoError(t, <-otherAgain)
		s.release(other.parties())
		require.NoError(t, <-last)
	})
}

func TestAQueueHasAnEnd(t *testing.T) {
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

func TestWhoGoesAwayLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := New(Bound{Slots: 4, Queue: 8, Wait: time.Minute}), person()
		release, err := s.Acquire(t.Context(), h)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Acquire(ctx, h)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		release()
		held, left, refused := s.Usage()
		require.Zero(t, held)
		require.Zero(t, left)
		require.Zero(t, refused, "nobody refused them")
	})
}
