package input

import (
	"regexp"
	"strings"

	"golang.org/x/net/idna"
)

// Lengths of an e-mail address in bytes, by RFC 5321 and RFC 1035.
const (
	MaxEmail = 254
	maxLocal = 64
	maxLabel = 63
	maxRead  = 4 * MaxEmail // as it is written: a domain in another script may be longer than its ASCII form
)

var (
	local = regexp.MustCompile("^[a-z0-9!#$%&'*+/=?^_`{|}~-]+([.][a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$")
	label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
)

// Email returns the one form in which an e-mail address is kept and compared: all
// of it ASCII, A–Z lowered, a domain in another script as the xn-- that stands for
// it. Nothing else is folded. Two addresses are the same here only if whoever
// verified the one has verified the other, so text that merely looks like an
// address, or that somebody else's folding would turn into one, is none: full-width
// letters, invisible characters, letters composed of several.
func Email(s string) (address string, ok bool) {
	s = Lower(s)
	if len(s) > maxRead || HasToken(s) {
		return "", false
	}
	name, domain, _ := strings.Cut(s, "@")
	if len(name) > maxLocal || !local.MatchString(name) {
		return "", false
	}
	host, ok := hostname(domain)
	address = name + "@" + host
	if !ok || len(address) > MaxEmail {
		return "", false
	}
	return address, true
}

// hostname returns the ASCII form of a domain whose A–Z are lowered. A label in
// another script has to be written as its ASCII form reads back: what the profile
// would have to map first (other cases and widths, signs, characters that it drops)
// has several spellings, and some of them lead to a domain of plain letters.
func hostname(domain string) (encoded string, ok bool) {
	if ascii(domain) && !strings.HasPrefix(domain, "xn--") && !strings.Contains(domain, ".xn--") {
		return domain, isHostname(domain)
	}
	encoded, err := idna.Lookup.ToASCII(domain)
	if err != nil || !isHostname(encoded) {
		return "", false
	}
	back, err := idna.Lookup.ToUnicode(encoded)
	if err != nil {
		return "", false
	}
	written, asASCII, asUnicode := strings.Split(domain, "."), strings.Split(encoded, "."), strings.Split(back, ".")
	if len(written) != len(asASCII) || len(written) != len(asUnicode) {
		return "", false
	}
	for i, l := range written {
		if l != asASCII[i] && l != asUnicode[i] {
			return "", false
		}
	}
	return encoded, true
}

func isHostname(domain string) bool {
	for l := range strings.SplitSeq(domain, ".") {
		if len(l) > maxLabel || !label.MatchString(l) {
			return false
		}
	}
	return true
}
