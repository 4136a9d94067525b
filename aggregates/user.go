package aggregates

import "svc/events"

// A User is a person. Their stream lies in their personal workspace.
type User struct {
	registered bool
}

// Apply takes in one event.
func (u *User) Apply(e events.Event) {
	if _, ok := e.(events.UserRegistered); ok {
		u.registered = true
	}
}

// Register makes the person known. To register again changes nothing.
func (u *User) Register(e events.UserRegistered) ([]events.Event, error) {
	if u.registered {
		return nil, nil
	}
	return one(e)
}
