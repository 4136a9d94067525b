package farm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// An aggregate is a *T that is the fold of events and who caused each.
type aggregate[T any] interface {
	*T
	Apply(e events.Event, by events.Actor)
}

// A spec says: given these events, deciding this returns these events, or err.
type spec[T any] struct {
	name  string
	given []events.Event
	when  func(*T) ([]events.Event, error)
	then  []events.Event
	err   error
}

// check tests aggregates against specs, and that deciding changes nothing.
func check[T any, A aggregate[T]](t *testing.T, specs []spec[T]) {
	t.Helper()
	for _, s := range specs {
		t.Run(s.name, func(t *testing.T) {
			a := folded[T, A](s.given)
			got, err := s.when(a)
			require.Equal(t, s.err, err)
			require.Equal(t, s.then, got)
			require.Equal(t, folded[T, A](s.given), a, "to decide must change nothing")
		})
	}
}

// folded returns the aggregate of a stream.
func folded[T any, A aggregate[T]](list []events.Event) *T {
	a := new(T)
	for _, e := range list {
		apply(A(a), e)
	}
	return a
}

// apply applies an event with ann as its actor, unless it is a caused one.
func apply[T any, A aggregate[T]](a A, e events.Event) {
	by := ann
	if c, ok := e.(caused); ok {
		e, by = c.Event, c.by
	}
	a.Apply(e, events.Actor{ID: by})
}

// caused is an event of another actor than ann.
type caused struct {
	events.Event
	by events.ID
}

// id returns an id that ends in n.
func id(n byte) events.ID { return events.ID{1, 0x9a, 15: n} }

func after(given []events.Event, more ...events.Event) []events.Event {
	return append(given[:len(given):len(given)], more...)
}

// ann causes what happens in tests.
var ann = id(1)

// noon is the time at which things happen in tests.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
