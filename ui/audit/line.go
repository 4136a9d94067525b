package audit

import (
	"fmt"
	"strconv"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
)

// A bar is a day on the line of time. Places are in percent of its width.
type bar struct {
	x, width, y, height string
	past                bool // before the step
	title               string
}

// A mark is an event about people or access on the line.
type mark struct {
	x     string
	y     int
	shape string // the path of it
	class string
}

const (
	barHeight  = 42 // pixels of the day with the most events
	barBottom  = 86
	marksTop   = 10
	marksRows  = 3  // marks above each other
	markHeight = 13 // pixels between them
	places     = 90 // of marks, beside each other
)

// The shapes of marks, around the middle: a circle, a lozenge, a triangle, a cross, a square.
var shapes = map[client.ActiveMarkKind]string{
	client.ActiveMarkKindMember:         "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0",
	client.ActiveMarkKindInvitation:     "M0-5L5 0L0 5L-5 0Z",
	client.ActiveMarkKindServiceAccount: "M0-5L5 4.5H-5Z",
	client.ActiveMarkKindDenied:         "M-4-4L4 4M4-4L-4 4",
	client.ActiveMarkKindWorkspace:      "M-4-4H4V4H-4Z",
}

// start is the beginning of the first day.
func (d replayed) start() time.Time {
	at, err := time.Parse(time.DateOnly, d.activity.Window.From)
	if err != nil {
		return d.step.At
	}
	return at
}

// end is the end of the last day.
func (d replayed) end() time.Time { return d.start().AddDate(0, 0, len(d.activity.Days)) }

// isEarlier reports whether the step lies before these days: the line has no place for it.
func (d replayed) isEarlier() bool { return d.step.At.Before(d.start()) }

// at is where a time is on the line: from 0 to 1.
func (d replayed) at(t time.Time) float64 {
	whole := d.end().Sub(d.start())
	if whole <= 0 {
		return 0
	}
	return min(max(float64(t.Sub(d.start()))/float64(whole), 0), 1)
}

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 2, 64) + "%" }

func (d replayed) bars() (list []bar) {
	most := int64(1)
	for _, day := range d.activity.Days {
		most = max(most, day.Events)
	}
	n := float64(len(d.activity.Days))
	for i, day := range d.activity.Days {
		height := int(day.Events * barHeight / most)
		if day.Events > 0 {
			height = max(height, 3)
		}
		begin := d.start().AddDate(0, 0, i)
		list = append(list, bar{
			percent((float64(i) + 0.14) / n), percent(0.72 / n), strconv.Itoa(barBottom - height), strconv.Itoa(height),
			!begin.After(d.step.At), fmt.Sprintf("%s: %s events", begin.Format("2 Jan"), kit.Number(day.Events)),
		})
	}
	return list
}

// marks thins out what would lie on top of each other: of each kind one in a place.
func (d replayed) marks() (list []mark) {
	type spot struct {
		place int
		kind  client.ActiveMarkKind
	}
	taken, high := map[spot]bool{}, map[int]int{}
	for _, m := range d.activity.Marks {
		place := int(d.at(m.At) * places)
		s := spot{place, m.Kind}
		if taken[s] || high[place] == marksRows || shapes[m.Kind] == "" {
			continue
		}
		taken[s] = true
		list = append(list, mark{percent((float64(place) + 0.5) / (places + 1)), marksTop + markHeight*high[place], shapes[m.Kind],
			"re-mark-" + string(m.Kind)})
		high[place]++
	}
	return list
}

// A label is a day that is written below the line.
type label struct{ x, text string }

func (d replayed) labels() (list []label) {
	n := len(d.activity.Days)
	for i := 0; i < n; i += max(1, n/6) {
		list = append(list, label{percent(float64(i) / float64(n)), d.start().AddDate(0, 0, i).Format("2 Jan")})
	}
	return list
}
