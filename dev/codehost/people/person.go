// Package people has the people of the code host: those of its configuration, and those who were added since.
package people

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"svc/input"
)

// A Person has an account here. Its JSON form is that of the file that svc-codehost reads.
type Person struct {
	ID     int64   `json:"id"`    // if 0, derived from Login or the first address, and stable over restarts
	Login  string  `json:"login"` // if empty, derived from the first address
	Name   string  `json:"name"`  // may be empty
	Emails []Email `json:"emails"`
	Role   string  `json:"role"` // in the application, which the page that asks who somebody is tells; may be empty
}

// An Email is an address of a person. A person may claim, unverified, an address of another.
type Email struct {
	Address  string `json:"email"`
	Primary  bool   `json:"primary"` // of at most one address
	Verified bool   `json:"verified"`
	Public   bool   `json:"public"` // shown in the profile, which has no address otherwise
}

const maxName = 100 // characters

var loginPattern = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)

// IsLogin accepts small letters, digits and single hyphens.
func IsLogin(s string) bool { return len(s) <= 39 && loginPattern.MatchString(s) }

// Complete fills in the login and id of a person and validates the rest.
func Complete(p Person) (Person, error) {
	key, primaries := p.Login, 0
	for _, e := range p.Emails {
		address, ok := input.Email(e.Address)
		if !ok {
			return p, fmt.Errorf("person %q: %q is no e-mail address", p.Login, e.Address)
		}
		key = cmp.Or(key, address)
		if e.Primary {
			primaries++
		}
	}
	if key == "" {
		return p, errors.New("a person without login and address")
	}
	p.Login = cmp.Or(p.Login, loginFor(key))
	if p.ID == 0 {
		p.ID = IDFor(key)
	}
	switch {
	case !IsLogin(p.Login):
		return p, fmt.Errorf("person %q: want a login of at most 39 small letters, digits and single hyphens", p.Login)
	case p.Name != "" && !isName(p.Name):
		return p, fmt.Errorf("person %q: want a name of at most %d characters", p.Login, maxName)
	case p.ID < 0 || primaries > 1:
		return p, fmt.Errorf("person %q: want an id above 0 and one primary address at most", p.Login)
	}
	return p, nil
}

// Login returns the login of a person, which may be derived.
func Login(p Person) string {
	p, _ = Complete(p) // of a person with a problem as well
	return p.Login
}

// isName accepts the names that real code hosts accept, because the service must handle them.
func isName(s string) bool {
	return s != "" && utf8.RuneCountInString(s) <= maxName && !strings.ContainsFunc(s, unicode.IsControl)
}

// IDFor derives an id from a key. It is above 2^32, to avoid configured ids, and exact in
// JavaScript. A person who is added again after a restart has the same id as before.
func IDFor(key string) int64 {
	sum := sha256.Sum256([]byte(key))
	return 1<<32 | int64(binary.BigEndian.Uint64(sum[:])>>12) // 52 bits
}

var notLogin = regexp.MustCompile(`[^a-z0-9]+`)

func loginFor(address string) string {
	local, _, _ := strings.Cut(address, "@")
	local = strings.Trim(notLogin.ReplaceAllString(local, "-"), "-")
	if len(local) > 30 { // leaves room for a number
		local = strings.Trim(local[:30], "-")
	}
	return cmp.Or(local, "somebody")
}

// Primary returns p's primary address, or the zero Email.
func (p Person) Primary() Email {
	if i := slices.IndexFunc(p.Emails, func(e Email) bool { return e.Primary }); i >= 0 {
		return p.Emails[i]
	}
	return Email{}
}

// Has reports whether p has an address.
func (p Person) Has(address string) bool {
	same, ok := input.Email(address)
	return ok && slices.ContainsFunc(p.Emails, func(e Email) bool {
		own, _ := input.Email(e.Address)
		return own == same
	})
}
