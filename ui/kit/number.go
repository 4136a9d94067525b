package kit

import "strconv"

// Digits writes a number that is a name or part of an address, such as that of an issue.
func Digits(n int64) string { return strconv.FormatInt(n, 10) }

// Number writes a number with a comma after each three digits.
func Number(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Count says how many there are of something: "1 run", "1,230 runs".
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Part says which part of a list a page is: "51 to 100 of 1,230".
func Part(offset, shown, total int64) string {
	if shown == 0 {
		return "none of " + Number(total)
	}
	return Number(offset+1) + " to " + Number(offset+shown) + " of " + Number(total)
}
