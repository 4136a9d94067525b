package kit

import (
	"fmt"
	"time"
)

// Ago formats a time relative to now: "2 minutes ago", "in 3 hours", "yesterday". app.js
// updates it as time passes, in the same words.
func Ago(at, now time.Time) string {
	d := now.Sub(at)
	switch {
	case d <= -time.Second: // clocks differ a little
		return "in " + ahead(-d)
	case d < 5*time.Second:
		return "just now"
	case d >= 24*time.Hour && d < 48*time.Hour:
		return "yesterday"
	}
	unit := time.Second
	for _, larger := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		if d >= larger {
			unit = larger
		}
	}
	return span(d, unit) + " ago"
}

// ahead formats a duration that is left, rounded, in hours up to three days: what has just been given 48 hours has 48 hours.
func ahead(d time.Duration) string {
	unit := time.Second
	switch {
	case d >= 72*time.Hour:
		unit = 24 * time.Hour
	case d >= time.Hour:
		unit = time.Hour
	case d >= time.Minute:
		unit = time.Minute
	}
	return span(d.Round(unit), unit)
}

// Stamp formats an absolute time, which a page shows when the pointer is over an [Ago].
func Stamp(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04:05 UTC") }

// Day returns a day, such as "2 January 2026".
func Day(at time.Time) string { return at.UTC().Format("2 January 2006") }

var unitNames = map[time.Duration]string{24 * time.Hour: "day", time.Hour: "hour", time.Minute: "minute", time.Second: "second"}

// span formats a duration in whole units.
func span(d, unit time.Duration) string {
	if n := d / unit; n != 1 {
		return fmt.Sprintf("%d %ss", n, unitNames[unit])
	}
	return "1 " + unitNames[unit]
}

// Duration formats a duration in at most two units: "1 h 4 min", "3 min 12 s", "820 ms".
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < 24*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, 24*time.Hour, "d", time.Hour, "h")
}

// Left formats a remaining duration in whole hours or minutes: "31 h", "42 min". The last minute is "1 min".
func Left(d time.Duration) string {
	if d >= time.Hour {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d min", max(d/time.Minute, 1))
}

func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	if rest := d % large / small; rest > 0 {
		return fmt.Sprintf("%d %s %d %s", d/large, largeName, rest, smallName)
	}
	return fmt.Sprintf("%d %s", d/large, largeName)
}

// Millis returns a duration of milliseconds.
func Millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Bytes formats a size: "412 B", "1.4 KiB", "20 MiB".
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	size, unit := float64(n), 0
	for size >= 1024 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	if unit == 0 || size >= 10 {
		return fmt.Sprintf("%.0f %s", size, units[unit])
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}

// Cents formats an amount of dollars, given in cents.
func Cents(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "−", -n
	}
	return fmt.Sprintf("%s$%d.%02d", sign, n/100, n%100)
}
