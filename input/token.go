package input

import (
	"regexp"

	"svc/fault"
)

// TokenPrefix begins every token of a service account, and EnrollmentPrefix every one by
// which a build machine becomes a runner; 32 random letters and digits and a checksum of
// six follow.
const (
	TokenPrefix      = "tok_svc_"
	EnrollmentPrefix = "tok_enr_"
)

// A token that was cut off is as good as whole while what is missing can be guessed,
// and its checksum can be computed. With twelve random characters unknown it cannot.
// What an issue says of the prefix, or a made-up example, is no token.
var (
	token = regexp.MustCompile(`tok_(?:svc|enr)_[0-9A-Za-z]{20}`)
	begun = regexp.MustCompile(`(tok_(?:svc|enr)_)[0-9A-Za-z]+`)
)

// HasToken reports whether s holds what has the form of one of our tokens, or most of
// it. Such text is never kept: who may read it could use it, for as long as it is valid.
func HasToken(s string) bool { return token.MatchString(s) }

// NoTokens refuses the texts, by the fields of a request, that hold a token.
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

// Redact takes tokens, also parts of them, out of text that need not be kept exactly.
func Redact(s string) string { return begun.ReplaceAllString(s, "${1}[redacted]") }
