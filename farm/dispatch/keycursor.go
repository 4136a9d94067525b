package dispatch

import (
	"maps"
	"slices"
	"strings"
)

// A keyCursor names a cursor over queue keys. It stays the same while requirement sets come and go, so
// that a group gets past keys that stay full.
type keyCursor struct {
	page   string // requirementCursor at the page of the group's requirement sets
	labels string // of a runner of the group
}

// keyCursors has the last queue key that candidatesByKey has looked at, for groups that have more to
// look at. The farm's goroutine owns it.
type keyCursors map[keyCursor]queueKey

// set moves a cursor. The zero key starts over.
func (k keyCursors) set(name keyCursor, at queueKey) {
	if at == (queueKey{}) {
		delete(k, name)
		return
	}
	k[name] = at
}

// drop removes the cursors of groups that no longer exist: those between the page that begins after
// from and the next one, which begins after to, "" if there is none, and those of runners that are
// not connected.
func (k keyCursors) drop(from, to string, connected []*connection) {
	if len(k) == 0 {
		return
	}
	exist := map[string]bool{}
	for _, c := range connected {
		u := c.slots.usage()
		exist[labelsKey(u.labels, u.exclusive)] = true
	}
	maps.DeleteFunc(k, func(name keyCursor, _ queueKey) bool {
		return !exist[name.labels] || name.page > from && (to == "" || name.page < to)
	})
}

// keyCursor returns the name of the group's cursor, which runners with equal labels share.
func (g *group) keyCursor(page string) keyCursor {
	var list []string
	for _, o := range g.runners {
		list = append(list, labelsKey(o.labels, o.exclusive))
	}
	return keyCursor{page, slices.Min(list)}
}

func labelsKey(labels, exclusive []string) string {
	return strings.Join(labels, "\x00") + "\x01" + strings.Join(exclusive, "\x00")
}
