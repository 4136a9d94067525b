package aggregates

import (
	"encoding/json"
	"time"

	"svc/events"
)

// A Snapshotter is an aggregate whose stream may grow long. Its state is kept now
// and then, so that a process that begins reads only what came after.
type Snapshotter interface {
	// Form is that of what Snapshot returns. It counts up whenever that is to mean
	// something else, or Apply takes in an event differently.
	Form() int
	// Snapshot returns the state as JSON.
	Snapshot() ([]byte, error)
	// Restore makes a zero aggregate what the snapshot was taken of.
	Restore(snapshot []byte) error
}

type workspaceSnapshot struct {
	Created     bool                             `json:"created"`
	Name        string                           `json:"name"`
	Slug        string                           `json:"slug"`
	Members     map[events.ID]memberSnapshot     `json:"members"`
	Invitations map[events.ID]invitationSnapshot `json:"invitations"`
	Invited     map[string]events.ID             `json:"invited"`
	Closed      map[events.ID]bool               `json:"closed"`
}

type memberSnapshot struct {
	User         events.ID   `json:"user"`
	Email        string      `json:"email"`
	Role         events.Role `json:"role"`
	ApproveLoops *bool       `json:"approveLoops,omitempty"`
}

type invitationSnapshot struct {
	Email   string      `json:"email"`
	Role    events.Role `json:"role"`
	Expires time.Time   `json:"expires"`
	Sender  events.ID   `json:"sender"`
}

// Form is 2: in the first one an invitation had no sender.
func (w *Workspace) Form() int { return 2 }

// Snapshot returns the state, which is that of no workspace on another's stream.
func (w *Workspace) Snapshot() ([]byte, error) {
	s := workspaceSnapshot{
		Created: w.created, Name: w.name, Slug: w.slug, Invited: w.invited, Closed: w.closed,
		Members: map[events.ID]memberSnapshot{}, Invitations: map[events.ID]invitationSnapshot{},
	}
	for id, m := range w.members {
		s.Members[id] = memberSnapshot{m.user, m.email, m.role, m.approveLoops}
	}
	for id, i := range w.invitations {
		s.Invitations[id] = invitationSnapshot{i.email, i.role, i.expires, i.sender}
	}
	return json.Marshal(s)
}

// Restore takes in a snapshot.
func (w *Workspace) Restore(snapshot []byte) error {
	var s workspaceSnapshot
	if err := json.Unmarshal(snapshot, &s); err != nil {
		return err
	}
	if !s.Created {
		return nil
	}
	w.Apply(events.WorkspaceCreated{Name: s.Name, Slug: s.Slug}, events.ID{})
	for id, m := range s.Members {
		w.put(id, member{m.User, m.Email, m.Role, m.ApproveLoops})
	}
	for id, i := range s.Invitations {
		w.open(id, invitation{i.Email, i.Role, i.Expires, i.Sender})
	}
	for address, id := range s.Invited {
		w.invited[address] = id
	}
	for id := range s.Closed {
		w.closed[id] = true
	}
	return nil
}
