package farm_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
)

// Inputs of the model: a revocation of a runner, and a use of its certificate.
type (
	revocation struct{ runner int }
	showing    struct{ runner int }
)

// revocations is the porcupine model: a certificate is accepted until its runner is revoked, and
// never after.
var revocations = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byRunner := map[int][]porcupine.Operation{}
		for _, o := range history {
			n := 0
			switch in := o.Input.(type) {
			case revocation:
				n = in.runner
			case showing:
				n = in.runner
			}
			byRunner[n] = append(byRunner[n], o)
		}
		var list [][]porcupine.Operation
		for _, operations := range byRunner {
			list = append(list, operations)
		}
		return list
	},
	Init: func() any { return 200 },
	Step: func(stands, in, out any) (bool, any) {
		if _, ok := in.(revocation); ok {
			return true, 403
		}
		return out.(int) == stands.(int), stands
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%T%+v → %v", in, in, out) },
}

// No replica admits a runner after its revocation is acknowledged, whatever requests run at the
// same time. The test also finds the error that a cache in front of the guard would make.
func TestRevocationIsLinearizable(t *testing.T) {
	s := newSite(t)
	const runners = 12
	for name, remember := range map[string]time.Duration{"as it is": 0, "with a cache": time.Minute} {
		t.Run(name, func(t *testing.T) {
			h := &history{began: time.Now()}
			for n := range runners {
				runner, certificate := s.enrol(t)
				s.race(t, h, n, runner, certificate, remember)
			}
			want := porcupine.Ok
			if remember > 0 {
				want = porcupine.Illegal
			}
			require.Equal(t, want, porcupine.CheckOperationsTimeout(revocations, h.list, time.Minute))
		})
	}
}

// A history records operations with their start and end.
type history struct {
	mu    sync.Mutex
	began time.Time
	list  []porcupine.Operation
}

func (h *history) note(client int, in any, do func() any) {
	call := time.Since(h.began).Nanoseconds()
	out := do()
	answered := time.Since(h.began).Nanoseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: answered})
}

// race uses a runner's certificate at both replicas concurrently while the runner is revoked.
func (s *site) race(t *testing.T, h *history, n int, runner events.ID, certificate string, remember time.Duration) {
	t.Helper()
	const clients, uses = 4, 20
	begun, after := make(chan struct{}, clients*uses), make(chan struct{})
	var wait sync.WaitGroup
	for client := range clients {
		at := []*replica{s.a, s.b}[client%2]
		known, until := 0, time.Time{}
		use := func() any {
			if time.Now().Before(until) {
				return known
			}
			status := at.self(t, certificate).status
			if remember > 0 {
				known, until = status, time.Now().Add(remember)
			}
			return status
		}
		wait.Go(func() {
			for range uses {
				h.note(client, showing{n}, use)
				begun <- struct{}{}
			}
			<-after
			h.note(client, showing{n}, use)
		})
	}
	for range clients * 2 {
		<-begun
	}
	h.note(clients, revocation{n}, func() any {
		_, err := s.b.commands.RevokeRunner(t.Context(), commands.RevokeRunner{Meta: s.owner, Runner: runner})
		return err == nil
	})
	close(after)
	wait.Wait()
}
