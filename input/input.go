// Package input judges text from outside before it is kept: in an event, which is
// for ever, in a row or in a log. It is the only place that says what an e-mail
// address is, what a name, a slug or a user agent may hold, and what is one of our
// tokens; whoever takes in text asks it.
//
// Two kinds of callers ask differently. What a person sends us is refused with the
// field that is wrong, and what somebody else says of a person, such as a code
// host, is cleaned or left out: nobody is kept from signing in by it.
package input

import "strings"

// Lower lowers A–Z and nothing else. To lower all of Unicode makes texts equal that
// are not: İ becomes i and K, the Kelvin sign, becomes k.
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
