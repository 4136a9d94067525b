package insights

import (
	"math"
	"strconv"
	"strings"

	"svc/ui/client"
)

// A frame is the area of a chart in units of its SVG. chartFrame is in percent horizontally and
// in pixels vertically.
type frame struct{ left, top, width, height float64 }

var (
	chartFrame = frame{0, 28, 100, 206}
	sparkFrame = frame{1, 3, 158, 24}
)

func (f frame) bottom() float64 { return f.top + f.height }

func (f frame) viewBox() string {
	return strings.Join([]string{oneDecimal(f.left), oneDecimal(f.top), oneDecimal(f.width), oneDecimal(f.height)}, " ")
}

// hasData reports whether there is a sample and a value to draw.
func hasData(k client.Kpi) bool {
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

// scaleMax returns the upper end of the scale: a round number not below any value.
func scaleMax(k client.Kpi) float64 {
	top := 0.0
	for _, d := range k.Series {
		for _, value := range []*float64{d.Value, d.Prior} {
			if value != nil {
				top = max(top, *value)
			}
		}
	}
	return roundUp(top, k.Unit)
}

// minuteSteps are the possible distances between the lines of a scale of durations, in minutes.
var minuteSteps = []float64{1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440}

const minute = 60_000 // milliseconds

// roundUp returns a number not below value that is easy to divide by four.
func roundUp(value float64, unit client.KpiUnit) float64 {
	switch {
	case value <= 0 && unit == client.DurationMs:
		return 4 * minute
	case value <= 0:
		return 4
	case unit == client.Pct:
		return 100
	case unit == client.DurationMs:
		for _, step := range minuteSteps {
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

// A valueFunc selects a series.
type valueFunc func(client.DayValue) *float64

func currentValue(d client.DayValue) *float64 { return d.Value }
func priorValue(d client.DayValue) *float64   { return d.Prior }

// parts returns the SVG path of a series in parts: a day without a value ends one. below says whether each part encloses
// the area below it.
func (f frame) parts(k client.Kpi, valueOf valueFunc, below bool) string {
	var out strings.Builder
	top, n, first := scaleMax(k), len(k.Series), -1
	end := func(last int) {
		switch {
		case first < 0:
		case below:
			out.WriteString("L" + twoDecimals(f.x(last, n)) + " " + oneDecimal(f.bottom()) +
				"L" + twoDecimals(f.x(first, n)) + " " + oneDecimal(f.bottom()) + "Z")
		case first == last:
			out.WriteString("h0") // a dot
		}
		first = -1
	}
	for i, d := range k.Series {
		value := valueOf(d)
		if value == nil {
			end(i - 1)
			continue
		}
		if first < 0 {
			first = i
			out.WriteByte('M')
		} else {
			out.WriteByte('L')
		}
		out.WriteString(twoDecimals(f.x(i, n)) + " " + oneDecimal(f.y(*value, top)))
	}
	end(n - 1)
	return out.String()
}

// line returns the SVG path of a series. It has gaps at days without a value.
func (f frame) line(k client.Kpi, valueOf valueFunc) string { return f.parts(k, valueOf, false) }

// area returns the SVG path of the area below a series.
func (f frame) area(k client.Kpi, valueOf valueFunc) string { return f.parts(k, valueOf, true) }

// barShare is the width of a bar as a share of the distance between two days.
const barShare = 0.36

// bars returns the SVG path of a bar for each day. Those of the prior period are at the right of those of this one.
func (f frame) bars(k client.Kpi, valueOf valueFunc, prior bool) string {
	var out strings.Builder
	top, width := scaleMax(k), f.dayWidth(k)*barShare
	for i, d := range k.Series {
		value := valueOf(d)
		if value == nil || *value == 0 {
			continue
		}
		left := f.x(i, len(k.Series))
		if !prior {
			left -= width
		}
		out.WriteString("M" + twoDecimals(left) + " " + oneDecimal(f.bottom()) + "V" + oneDecimal(f.y(*value, top)) +
			"h" + twoDecimals(width) + "V" + oneDecimal(f.bottom()) + "Z")
	}
	return out.String()
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
	top := scaleMax(k)
	for i := range 5 {
		value := top * float64(i) / 4
		text := formatAmount(k.Unit, value)
		if value == 0 {
			text = "0"
		}
		list = append(list, tick{f.y(value, top), text})
	}
	return list
}

// dayTicks returns the days that are labelled below the chart, at most six.
func (f frame) dayTicks(k client.Kpi) (list []tick) {
	n := len(k.Series)
	step := max(1, (n+5)/6)
	for i := 0; i < n; i += step {
		list = append(list, tick{f.x(i, n), formatDay(k.Series[i].Date)})
	}
	return list
}

// dayWidth returns the distance between two days.
func (f frame) dayWidth(k client.Kpi) float64 { return f.width / float64(max(1, len(k.Series)-1)) }

func oneDecimal(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }

func twoDecimals(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) }

func percent(n float64) string { return twoDecimals(n) + "%" }
