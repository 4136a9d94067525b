package audit

import (
	"fmt"
	"strconv"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
)

// A bar is a day on the timeline. x and width are in percent of the timeline's width.
type bar struct {
	x, width, y, height string
	past                bool // not after the step
	title               string
}

// A mark is an event about people or access on the timeline.
type mark struct {
	x     string
	y     int
	shape string // an SVG path
	class string
}

const (
	barHeight   = 42 // pixels of the day with the most events
	barBottom   = 86
	marksTop    = 10
	maxStacked  = 3  // marks in a column
	markHeight  = 13 // pixels from mark to mark
	markColumns = 90 // of marks
)

// shapes are the SVG paths of marks, centred at 0,0: a circle, a lozenge, a triangle, a
// cross, a square, a bar.
var shapes = map[client.ActiveMarkKind]string{
	client.ActiveMarkKindMember:         "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0",
	client.ActiveMarkKindInvitation:     "M0-5L5 0L0 5L-5 0Z",
	client.ActiveMarkKindServiceAccount: "M0-5L5 4.5H-5Z",
	client.ActiveMarkKindDenied:         "M-4-4L4 4M4-4L-4 4",
	client.ActiveMarkKindWorkspace:      "M-4-4H4V4H-4Z",
	client.ActiveMarkKindOther:          "M-5-1.5H5V1.5H-5Z",
}

// start returns the beginning of the first day.
func (d replayData) start() time.Time {
	at, err := time.Parse(time.DateOnly, d.activity.Window.From)
	if err != nil {
		return d.step.At
	}
	return at
}

// end returns the end of the last day.
func (d replayData) end() time.Time { return d.start().AddDate(0, 0, len(d.activity.Days)) }

// isBeforeWindow reports whether the step is earlier than the timeline's days.
func (d replayData) isBeforeWindow() bool { return d.step.At.Before(d.start()) }

// fraction returns the position of a time on the timeline, from 0 to 1.
func (d replayData) fraction(t time.Time) float64 {
	whole := d.end().Sub(d.start())
	if whole <= 0 {
		return 0
	}
	return min(max(float64(t.Sub(d.start()))/float64(whole), 0), 1)
}

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 2, 64) + "%" }

func (d replayData) bars() (list []bar) {
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

// marks returns the marks of the timeline: one of each kind in a column, at most maxStacked
// in a column.
func (d replayData) marks() (list []mark) {
	type slot struct {
		column int
		kind   client.ActiveMarkKind
	}
	taken, stacked := map[slot]bool{}, map[int]int{}
	for _, m := range d.activity.Marks {
		column := int(d.fraction(m.At) * markColumns)
		s := slot{column, m.Kind}
		if taken[s] || stacked[column] == maxStacked || shapes[m.Kind] == "" {
			continue
		}
		taken[s] = true
		list = append(list, mark{percent((float64(column) + 0.5) / (markColumns + 1)), marksTop + markHeight*stacked[column], shapes[m.Kind],
			"re-mark-" + string(m.Kind)})
		stacked[column]++
	}
	return list
}

// A label is a date below the timeline.
type label struct{ x, text string }

func (d replayData) labels() (list []label) {
	n := len(d.activity.Days)
	for i := 0; i < n; i += max(1, n/6) {
		list = append(list, label{percent(float64(i) / float64(n)), d.start().AddDate(0, 0, i).Format("2 Jan")})
	}
	return list
}
