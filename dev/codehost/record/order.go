package record

import (
	"slices"
	"time"
)

// OfState reports whether i has a state: open, closed or all, by default open.
func (i *Issue) OfState(state string) bool {
	switch state {
	case "all":
		return true
	case "closed":
		return i.Closed
	}
	return !i.Closed
}

// Order sorts a list that is in the order of creation, the newest first.
func Order(list []*Issue, by, direction string) {
	of := func(i *Issue) time.Time { return i.CreatedAt }
	switch by {
	case "updated":
		of = func(i *Issue) time.Time { return i.UpdatedAt }
	case "comments":
		of = func(i *Issue) time.Time { return time.Unix(int64(len(i.Comments)), 0) }
	}
	slices.SortStableFunc(list, func(a, b *Issue) int { return of(b).Compare(of(a)) })
	if direction == "asc" {
		slices.Reverse(list)
	}
}
