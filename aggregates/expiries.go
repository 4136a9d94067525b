package aggregates

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"svc/events"
)

// expiries are the pending invitations of one sender, ordered by expiry. Those that can
// still be accepted are at the end, however many have expired.
type expiries []expiry

type expiry struct {
	at         time.Time
	invitation events.ID
}

func (l expiries) find(e expiry) (int, bool) {
	return slices.BinarySearchFunc(l, e, func(a, b expiry) int {
		return cmp.Or(a.at.Compare(b.at), bytes.Compare(a.invitation[:], b.invitation[:]))
	})
}

func (l expiries) with(e expiry) expiries {
	i, _ := l.find(e)
	return slices.Insert(l, i, e)
}

func (l expiries) without(e expiry) expiries {
	i, ok := l.find(e)
	if !ok {
		return l
	}
	return slices.Delete(l, i, i+1)
}
