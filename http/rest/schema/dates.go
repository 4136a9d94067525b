package schema

import "time"

// DaysOf returns the first of the UTC days of a range such as 30d, which ends today, and their number.
func DaysOf(window string, now time.Time) (from time.Time, days int) {
	days = map[string]int{"7d": 7, "30d": 30, "90d": 90}[window]
	return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days), days
}

// Dates is an inclusive range of UTC days.
type Dates struct {
	From string `json:"from" format:"date" example:"2026-10-23"`
	To   string `json:"to" format:"date" example:"2026-11-21"`
}
