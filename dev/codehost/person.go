package codehost

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

// A Person has an account here. Its JSON is that of the file which
// svc-codehost reads.
type Person struct {
	ID     int64   `json:"id"`    // made from Login or the first address if 0, and then the same after a restart
	Login  string  `json:"login"` // made from the first address if empty
	Name   string  `json:"name"`  // may be empty
	Emails []Email `json:"emails"`
}

// An Email is an address of a person. A person may claim addresses that are
// another's, unverified.
type Email struct {
	Address  string `json:"email"`
	Primary  bool   `json:"primary"` // of one address at most
	Verified bool   `json:"verified"`
	Public   bool   `json:"public"` // shown in the profile, which is empty otherwise
}

const maxName = 100 // characters

var login = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)

// complete fills in what a person's address says, and refuses the rest.
func complete(p Person) (Person, error) {
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
		p.ID = idFor(key)
	}
	switch {
	case len(p.Login) > 39 || !login.MatchString(p.Login):
		return p, fmt.Errorf("person %q: want a login of at most 39 small letters, digits and single hyphens", p.Login)
	case p.Name != "" && !isName(p.Name):
		return p, fmt.Errorf("person %q: want a name of at most %d characters", p.Login, maxName)
	case p.ID < 0 || primaries > 1:
		return p, fmt.Errorf("person %q: want an id above 0 and one primary address at most", p.Login)
	}
	return p, nil
}

// isName lets pass what the hosts that this one plays let pass: the service has to
// live with such names.
func isName(s string) bool {
	return s != "" && utf8.RuneCountInString(s) <= maxName && !strings.ContainsFunc(s, unicode.IsControl)
}

// idFor makes ids that nobody would list, and that JavaScript can hold.
// Whoever is invented again after a restart is the same person to the
// applications that knew them, and never somebody else.
func idFor(key string) int64 {
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

// primary returns the address that stands for p, or no address.
func (p Person) primary() Email {
	if i := slices.IndexFunc(p.Emails, func(e Email) bool { return e.Primary }); i >= 0 {
		return p.Emails[i]
	}
	return Email{}
}

func (p Person) has(address string) bool {
	same, ok := input.Email(address)
	return ok && slices.ContainsFunc(p.Emails, func(e Email) bool {
		own, _ := input.Email(e.Address)
		return own == same
	})
}
