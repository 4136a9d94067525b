package insights

import (
	"math"
	"strconv"
	"strings"

	"svc/ui/client"
)

// A frame is the area of a chart in units of the SVG. The large chart has percent horizontally
// and pixels vertically.
type frame struct{ left, top, width, height float64 }

var (
	large = frame{0, 28, 100, 206}
	spark = frame{1, 3, 158, 24}
)

func (f frame) floor() float64 { return f.top + f.height }

func (f frame) viewBox() string {
	return strings.Join([]string{unit(f.left), unit(f.top), unit(f.width), unit(f.height)}, " ")
}

// known reports whether the series has a value.
func known(k client.Kpi) bool {
	if k.Sample == 0 && k.PriorSample == 0 {
		return false
	}
	for _, d := range k.Series {
		if d.Value != nil || d.Prior != nil {
			return true
		}
	}
	return false
}

// highest returns the upper end of a scale: a round number above every value.
func highest(k client.Kpi) float64 {
	top := 0.0
	for _, d := range k.Series {
		for _, value := range []*float64{d.Value, d.Prior} {
			if value != nil {
				top = max(top, *value)
			}
		}
	}
	return round(top, k.Unit)
}

// minutes are the distances between the lines of a scale of durations.
var minutes = []float64{1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440}

const minute = 60_000 // milliseconds

// round returns a number that divides well by four, and is not below value.
func round(value float64, unit client.KpiUnit) float64 {
	switch {
	case value <= 0 && unit == client.DurationMs:
		return 4 * minute
	case value <= 0:
		return 4
	case unit == client.Pct:
		return 100
	case unit == client.DurationMs:
		for _, step := range minutes {
			if 4*step*minute >= value {
				return 4 * step * minute
			}
		}
	}
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, nice := range []float64{1, 2, 4, 6, 8, 10} {
		if nice*power >= value {
			return max(nice*power, 4)
		}
	}
	return value
}

type pick func(client.DayValue) *float64

func current(d client.DayValue) *float64 { return d.Value }
func before(d client.DayValue) *float64  { return d.Prior }

// line returns the path of a series. It bridges days without a value.
func (f frame) line(k client.Kpi, of pick) string {
	var out strings.Builder
	top := highest(k)
	for i, d := range k.Series {
		if value := of(d); value != nil {
			if out.Len() == 0 {
				out.WriteByte('M')
			} else {
				out.WriteByte('L')
			}
			out.WriteString(precise(f.x(i, len(k.Series))) + " " + unit(f.y(*value, top)))
		}
	}
	return out.String()
}

// area returns the path of the area below a series.
func (f frame) area(k client.Kpi, of pick) string {
	line := f.line(k, of)
	if line == "" {
		return ""
	}
	first, last := -1, 0
	for i, d := range k.Series {
		if of(d) != nil {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	floor := unit(f.floor())
	return line + "L" + precise(f.x(last, len(k.Series))) + " " + floor + "L" + precise(f.x(first, len(k.Series))) + " " + floor + "Z"
}

func (f frame) x(i, n int) float64 {
	if n < 2 {
		return f.left
	}
	return f.left + f.width*float64(i)/float64(n-1)
}

func (f frame) y(value, top float64) float64 { return f.top + f.height*(1-value/top) }

// A tick is a line of the scale.
type tick struct {
	at   float64
	text string
}

func (f frame) ticks(k client.Kpi) (list []tick) {
	top := highest(k)
	for i := range 5 {
		value := top * float64(i) / 4
		text := amount(k.Unit, value)
		if value == 0 {
			text = "0"
		}
		list = append(list, tick{f.y(value, top), text})
	}
	return list
}

// days returns the days that are labelled below the chart: at most six.
func (f frame) days(k client.Kpi) (list []tick) {
	n := len(k.Series)
	step := max(1, (n+5)/6)
	for i := 0; i < n; i += step {
		list = append(list, tick{f.x(i, n), day(k.Series[i].Date)})
	}
	return list
}

// band returns the horizontal range in which the crosshair is on a day.
func (f frame) band(k client.Kpi) float64 { return f.width / float64(max(1, len(k.Series)-1)) }

func unit(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }

func precise(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) }

func percent(n float64) string { return precise(n) + "%" }
