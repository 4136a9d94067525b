package input

import (
	"regexp"
	"strings"
	"unicode"

	"svc/fault"
)

// TokenPrefix begins the tokens of service accounts, EnrollmentPrefix those with which a
// build machine becomes a runner. 32 random letters and digits and a checksum of six
// follow.
const (
	TokenPrefix      = "tok_svc_"
	EnrollmentPrefix = "tok_enr_"
)

// token also matches tokens that were cut off: what is missing can be guessed and checked
// by the checksum, unless twelve or more random characters are missing. Mentions of the
// prefix and made-up examples do not match.
var (
	token     = regexp.MustCompile(`tok_(?:svc|enr)_[0-9A-Za-z]{20}`)
	tokenPart = regexp.MustCompile(`(tok_(?:svc|enr)_)[0-9A-Za-z]+`)
)

// HasToken reports whether s contains one of our tokens, or most of one, even with invisible
// characters inside. Such text must not be stored, because its readers could use the token.
func HasToken(s string) bool { return token.MatchString(s) || token.MatchString(onlyVisible(s)) }

// onlyVisible returns s without characters that are invisible anywhere or among letters and digits.
func onlyVisible(s string) string {
	return strings.Map(func(r rune) rune {
		if ' ' <= r && r <= '~' { // nearly all of most texts
			return r
		}
		if !unicode.IsSpace(r) && (invisible(r) || r == joiner || r == nonJoiner || unicode.Is(unicode.Variation_Selector, r)) {
			return -1
		}
		return r
	}, s)
}

// NoTokens returns an error that names the fields whose texts contain a token.
func NoTokens(fields map[string]string) error {
	wrong := map[string][]string{}
	for field, text := range fields {
		if HasToken(text) {
			wrong[field] = []string{"must not hold a service token"}
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fault.Fields(wrong)
}

// MaskTokens replaces tokens, and parts of them, in text that need not be stored exactly, such as what
// a job reports: NoTokens accepts the result, also as JSON. Invisible characters are
// dropped if there is a token among them.
func MaskTokens(s string) string {
	s = tokenPart.ReplaceAllString(s, "${1}[redacted]")
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) && HasToken(s) {
		s = tokenPart.ReplaceAllString(onlyVisible(s), "${1}[redacted]")
	}
	return s
}
