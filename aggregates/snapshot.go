package aggregates

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/events"
)

type workspaceSnapshot struct {
	Created     bool                             `json:"created"`
	Name        string                           `json:"name"`
	Slug        string                           `json:"slug"`
	Creator     events.ID                        `json:"creator"`
	Members     []memberSnapshot                 `json:"members"`
	Invitations map[events.ID]invitationSnapshot `json:"invitations"`
	Invited     map[string]events.ID             `json:"invited"`
	Closed      []events.ID                      `json:"closed"`
	PurgeAt     time.Time                        `json:"purgeAt,omitzero"`
	Purging     bool                             `json:"purging,omitzero"`
}

// A memberSnapshot is encoded as one string: there may be 100,000, and objects take several
// times as long to decode.
type memberSnapshot struct {
	ID, User     events.ID
	Role         events.Role
	ApproveLoops *bool
	Email        string
}

// MarshalText returns "ID USER ROLE APPROVE EMAIL". APPROVE is ApproveLoops: true, false or
// a dash for nil.
func (m memberSnapshot) MarshalText() ([]byte, error) {
	approve := "-"
	if m.ApproveLoops != nil {
		approve = strconv.FormatBool(*m.ApproveLoops)
	}
	return []byte(m.ID.String() + " " + m.User.String() + " " + string(m.Role) + " " + approve + " " + m.Email), nil
}

// UnmarshalText parses the text of MarshalText.
func (m *memberSnapshot) UnmarshalText(text []byte) (err error) {
	fields := strings.SplitN(string(text), " ", 5)
	if len(fields) < 5 {
		return fmt.Errorf("member %q: too few fields", text)
	}
	m.Role, m.Email = events.Role(fields[2]), fields[4]
	if m.ID, err = events.ParseID(fields[0]); err != nil {
		return err
	}
	if m.User, err = events.ParseID(fields[1]); err != nil || fields[3] == "-" {
		return err
	}
	tick, err := strconv.ParseBool(fields[3])
	m.ApproveLoops = &tick
	return err
}

type invitationSnapshot struct {
	Email   string      `json:"email"`
	Role    events.Role `json:"role"`
	Expires time.Time   `json:"expires"`
	Sender  events.ID   `json:"sender"`
}

// Form returns 5. In form 1 an invitation had no sender; in form 2 members were objects; in
// form 3 closed was an object with the ids of all closed invitations; in form 4 there was no creator.
func (w *Workspace) Form() int { return 5 }

// Snapshot returns the state. If the stream is not a workspace's, that is the zero state.
func (w *Workspace) Snapshot() ([]byte, error) {
	s := workspaceSnapshot{
		Created: w.created, Name: w.name, Slug: w.slug, Creator: w.creator, Invited: w.invited, Closed: w.closed,
		PurgeAt: w.purgeAt, Purging: w.purging,
		Members: make([]memberSnapshot, 0, len(w.members)), Invitations: map[events.ID]invitationSnapshot{},
	}
	for id, m := range w.members {
		s.Members = append(s.Members, memberSnapshot{ID: id, User: m.user, Role: m.role, ApproveLoops: m.approveLoops, Email: m.email})
	}
	slices.SortFunc(s.Members, func(a, b memberSnapshot) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for id, i := range w.invitations {
		s.Invitations[id] = invitationSnapshot{i.email, i.role, i.expires, i.sender}
	}
	return json.Marshal(s)
}

// Restore sets the state of a snapshot.
func (w *Workspace) Restore(snapshot []byte) error {
	var s workspaceSnapshot
	if err := json.Unmarshal(snapshot, &s); err != nil {
		return err
	}
	if !s.Created {
		return nil
	}
	w.Apply(events.WorkspaceCreated{Name: s.Name, Slug: s.Slug}, events.Actor{ID: s.Creator})
	w.purgeAt, w.purging = s.PurgeAt, s.Purging
	w.members, w.byUser = make(map[events.ID]member, len(s.Members)), make(map[events.ID]events.ID, len(s.Members))
	for _, m := range s.Members {
		w.putMember(m.ID, member{m.User, m.Email, m.Role, m.ApproveLoops})
	}
	byExpiry := slices.SortedFunc(maps.Keys(s.Invitations), func(a, b events.ID) int {
		return s.Invitations[a].Expires.Compare(s.Invitations[b].Expires)
	})
	for _, id := range byExpiry { // in order of expiry, so that each is appended to its sender's list
		i := s.Invitations[id]
		w.addInvitation(id, invitation{i.Email, i.Role, i.Expires, i.Sender})
	}
	maps.Copy(w.invited, s.Invited)
	w.closed = s.Closed
	return nil
}
