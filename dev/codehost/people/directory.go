package people

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"svc/fault"
	"svc/input"
)

// maxAdded is how many people can be added while the host runs; then the oldest of them is
// dropped.
const maxAdded = 100

// A Directory has all people: those from the configuration, then those added since.
type Directory struct {
	mu         sync.RWMutex
	people     []Person
	configured int
}

// NewDirectory returns the people of a configuration, whose logins and ids have to differ.
func NewDirectory(list []Person) (*Directory, error) {
	d := &Directory{configured: len(list)}
	for _, p := range list {
		p.Emails = slices.Clone(p.Emails)
		p, err := Complete(p)
		if err != nil {
			return nil, err
		}
		if d.find(func(o Person) bool { return o.ID == p.ID || o.Login == p.Login }) != nil {
			return nil, fmt.Errorf("person %q: another person has this login, or the id %d", p.Login, p.ID)
		}
		d.people = append(d.people, p)
	}
	return d, nil
}

func (d *Directory) find(is func(Person) bool) *Person {
	if i := slices.IndexFunc(d.people, is); i >= 0 {
		return &d.people[i]
	}
	return nil
}

// All returns all people.
func (d *Directory) All() []Person {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clone(d.people)
}

// ByLogin returns the person with a login, if there is one.
func (d *Directory) ByLogin(login string) (Person, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if p := d.find(func(p Person) bool { return p.Login == login }); p != nil {
		return *p, true
	}
	return Person{}, false
}

// Add adds a person with one address. The error is a [fault.Fault] that can be shown.
func (d *Directory) Add(name, address string, verified bool) (Person, error) {
	_, ok := input.Email(address)
	switch {
	case !isName(name):
		return Person{}, fault.Field("name", "Give a name of at most %d characters.", maxName)
	case !ok:
		return Person{}, fault.Field("email", "Give an e-mail address, such as name@example.com.")
	}
	p, err := Complete(Person{Name: name, Emails: []Email{{Address: address, Primary: true, Verified: verified}}})
	if err != nil {
		return p, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.find(func(o Person) bool { return o.Has(address) || o.ID == p.ID }); o != nil {
		return p, fault.Field("email", "%s already has this address. Choose them in the list.", o.Name)
	}
	base := p.Login
	for n := 2; d.find(func(o Person) bool { return o.Login == p.Login }) != nil; n++ {
		p.Login = base + "-" + strconv.Itoa(n)
	}
	if len(d.people)-d.configured == maxAdded {
		d.people = slices.Delete(d.people, d.configured, d.configured+1)
	}
	d.people = append(d.people, p)
	return p, nil
}
