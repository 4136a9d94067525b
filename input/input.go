// Package input checks text from outside before it is stored: in an event, which is for
// ever, in a row or in a log line. Only this package defines what an e-mail address is,
// what a name, a slug or a user agent may contain, and what a token looks like.
//
// There are two kinds of functions. Text that a caller sends for themselves is refused,
// with the field that is wrong. Text that somebody else reports about a person, such as a
// code host, is cleaned or left out, so that it prevents nobody from signing in.
package input

import "strings"

// Lower converts A–Z to lower case and nothing else. Lowering all of Unicode makes
// different texts equal: İ becomes i, and K, the Kelvin sign, becomes k.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 0x7f })
}
