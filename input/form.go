package input

import (
	"regexp"
	"strings"

	"svc/fault"
)

// A Form is the syntax of a name that programs use to identify something. Rule describes
// it, following "must".
type Form struct {
	Pattern *regexp.Regexp
	Rule    string
	except  *regexp.Regexp
}

// The forms of a workspace's slug and of a service account's name. Requests identify a
// workspace by slug or id, so a slug must not look like an id.
var (
	Slug = Form{
		Pattern: regexp.MustCompile(`^[a-z][a-z0-9-]{1,38}[a-z0-9]$`),
		Rule:    "have 3 to 40 lower-case letters, digits and hyphens, start with a letter, not end with a hyphen, and not look like an id",
		except:  regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`),
	}
	AccountName = Form{
		Pattern: regexp.MustCompile(`^[a-z][a-z0-9-]{2,39}$`),
		Rule:    "have 3 to 40 lower-case letters, digits and hyphens, and start with a letter",
	}

	// RunnerName is the form of a build machine's name, which is part of one of its labels.
	RunnerName = Form{
		Pattern: regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`),
		Rule:    "have 1 to 63 lower-case letters, digits, dots and hyphens, and start with a letter or digit",
	}

	// Label is the form of the labels that build machines have and jobs require.
	Label = Form{
		Pattern: regexp.MustCompile(`^[a-z0-9][a-z0-9._/-]{0,62}=[A-Za-z0-9][A-Za-z0-9._/:+-]{0,62}$`),
		Rule:    "be key=value, such as pool=default",
	}

	// RequiredLabel is the form of a label that a job requires: one of a runner, or one that its machine says of itself.
	RequiredLabel = Form{
		Pattern: regexp.MustCompile(`^(machine:)?[a-z0-9][a-z0-9._/-]{0,62}=[A-Za-z0-9][A-Za-z0-9._/:+-]{0,62}$`),
		Rule:    "be key=value, such as pool=default, or machine:key=value",
	}

	// Word is the form of what programs report about themselves, such as a version.
	Word = Form{
		Pattern: regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$`),
		Rule:    "have 1 to 63 letters, digits, dots, hyphens, underscores and plus signs",
	}
)

// Fits reports whether s has the form.
func (f Form) Fits(s string) bool {
	return f.Pattern.MatchString(s) && (f.except == nil || !f.except.MatchString(s))
}

// Check returns an error about the named field if s does not have the form.
func (f Form) Check(field, s string) error {
	if !f.Fits(s) {
		return fault.Field(field, "must %s", f.Rule)
	}
	return nil
}

// maxSlugBase leaves room in a slug for a number of five digits.
const maxSlugBase = 34

var notInSlug = regexp.MustCompile(`[^a-z0-9]+`)

// SlugOf derives a slug from a login at another site. It leaves room for six more
// characters.
func SlugOf(login string) string {
	s := strings.Trim(notInSlug.ReplaceAllString(Lower(login), "-"), "-")
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		s = "u-" + s
	}
	if len(s) > maxSlugBase {
		s = s[:maxSlugBase]
	}
	s = strings.TrimRight(s, "-")
	if len(s) < 3 {
		s += "-home"
	}
	return s
}
