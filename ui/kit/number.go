package kit

import "strconv"

// Digits formats a number that identifies something, such as an issue's: "1230".
func Digits(n int64) string { return strconv.FormatInt(n, 10) }

// Number formats a quantity: "1,230".
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Count formats a quantity of something: "1 run", "1,230 runs".
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Part describes the part of a list that a page shows: "51 to 100 of 1,230".
func Part(offset, shown, total int64) string {
	if shown == 0 {
		return "none of " + Number(total)
	}
	return Number(offset+1) + " to " + Number(offset+shown) + " of " + Number(total)
}
