package input

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"svc/fault"
)

// A Check collects what is wrong with each field. The zero Check has found nothing.
type Check struct{ wrong map[string][]string }

// Must says that a field is wrong unless ok.
func (c *Check) Must(ok bool, field, format string, args ...any) {
	if !ok {
		c.Add(field, fmt.Sprintf("must "+format, args...))
	}
}

// Add adds messages about a field.
func (c *Check) Add(field string, messages ...string) {
	if c.wrong == nil {
		c.wrong = map[string][]string{}
	}
	c.wrong[field] = append(c.wrong[field], messages...)
}

// Matches checks that a text has a form, and holds no service token.
func (c *Check) Matches(f Form, field, text string) {
	c.Must(f.Fits(text), field, "%s", f.Rule)
	c.Must(!HasToken(text), field, "not hold a service token")
}

// Text checks the rules for all texts: at most so many bytes, valid, no NUL, no service
// token.
func (c *Check) Text(field, text string, most int) {
	c.Must(len(text) <= most, field, "have %d bytes at most", most)
	c.Must(utf8.ValidString(text) && !strings.ContainsRune(text, 0), field, "be text without NUL")
	c.Must(!HasToken(text), field, "not hold a service token")
}

// Between checks a number.
func (c *Check) Between(n, least, most int, field string) {
	c.Must(n >= least && n <= most, field, "be between %d and %d", least, most)
}

// OneOf checks that a value is one of several.
func (c *Check) OneOf(value string, field string, of ...string) {
	c.Must(slices.Contains(of, value), field, "be one of %s", strings.Join(of, ", "))
}

// Err returns an error that lists what is wrong with each field, or nil.
func (c *Check) Err() error {
	if len(c.wrong) > 0 {
		return fault.Fields(c.wrong)
	}
	return nil
}
