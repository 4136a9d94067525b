package input

import (
	"regexp"
	"strings"

	"golang.org/x/net/idna"
)

// Lengths of an e-mail address in bytes, by RFC 5321 and RFC 1035.
const (
	MaxEmail   = 254
	maxLocal   = 64
	maxLabel   = 63
	maxWritten = 4 * MaxEmail // before normalization; a domain in another script may be longer than its ASCII form
)

var (
	local = regexp.MustCompile("^[a-z0-9!#$%&'*+/=?^_`{|}~-]+([.][a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$")
	label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
)

// Email returns the normalized form of an e-mail address, in which it is stored and
// compared: ASCII, A–Z in lower case, a domain in another script in its xn-- form. Nothing
// else is mapped. Two addresses are equal only if whoever verified one has verified the
// other. So text that merely looks like an address, or that other software would map to
// one, is refused: full-width letters, invisible characters, composed letters.
func Email(s string) (address string, ok bool) {
	s = Lower(s)
	if len(s) > maxWritten || HasToken(s) {
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

// TypedEmail is [Email] for an address that a person has typed or pasted, perhaps with blanks around it.
func TypedEmail(s string) (address string, ok bool) { return Email(strings.TrimSpace(s)) }

// hostname returns the ASCII form of a domain whose A–Z are in lower case. Labels in
// another script have to be spelled as their ASCII form decodes. What the IDNA profile
// would map first (other cases and widths, signs, dropped characters) has several
// spellings, some of which lead to a domain of plain letters.
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
