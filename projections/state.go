package projections

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
)

// ErrUnreadable says that a past state cannot be computed because this build cannot read an event.
var ErrUnreadable = fault.New(fault.Conflict, "event_unreadable",
	"An event before this point cannot be read by this version of the service.")

// maxStateRows bounds the members, invitations and service accounts of a state, which are all in
// memory.
const maxStateRows = 100_000

// ErrStateTooLarge says that a past state has more than maxStateRows rows.
var ErrStateTooLarge = fault.New(fault.Conflict, "state_too_large",
	"The workspace has had more than %d members, invitations and service accounts by then. Export the audit log instead.", maxStateRows)

// A State is a workspace after event Seq: the rows of several views, folded in memory. Its lists
// are ordered by id. The zero State is the state before all events.
type State struct {
	Seq       int64
	At        time.Time
	workspace rowSet[events.ID, Workspace]

	members         rowSet[events.ID, memberRow]
	invitations     rowSet[events.ID, invitationRow]
	serviceAccounts rowSet[events.ID, serviceAccountRow]
}

// A StateList names a list of a state.
type StateList string

// The lists. That of the workspace has one element.
const (
	InWorkspace       StateList = "workspace"
	InMembers         StateList = "members"
	InInvitations     StateList = "invitations"
	InServiceAccounts StateList = "serviceAccounts"
)

// A StateChange is the effect of an event on one row. Before is nil if the row was created, After
// is nil if it was removed. Index is the row's index in its list. Rows are of type [Workspace],
// [Member], [Invitation] or [ServiceAccount], without fields that come from other views.
type StateChange struct {
	List          StateList
	Index         int
	Before, After any
}

// Apply applies the next event to s and returns what it changed.
func (s *State) Apply(r events.Record) ([]StateChange, error) {
	if _, unread := r.Event.(events.Undecoded); unread && events.NounOf(r.Event.Kind()).State {
		return nil, ErrUnreadable.With("seq", r.Seq)
	}
	s.Seq, s.At = r.Seq, r.At
	var list []StateChange
	for _, take := range []func() ([]StateChange, error){
		func() ([]StateChange, error) {
			return applyTo(&s.workspace, workspaces, InWorkspace, r, identity[Workspace])
		},
		func() ([]StateChange, error) { return applyTo(&s.members, members, InMembers, r, memberOf) },
		func() ([]StateChange, error) {
			return applyTo(&s.invitations, invitations, InInvitations, r, invitationOf)
		},
		func() ([]StateChange, error) {
			return applyTo(&s.serviceAccounts, serviceAccounts, InServiceAccounts, r, serviceAccountOf)
		},
	} {
		changes, err := take()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable.With("seq", r.Seq), err)
		}
		list = append(list, changes...)
	}
	return list, nil
}

// rowCount returns the number of rows that count towards maxStateRows.
func (s *State) rowCount() int {
	return len(s.members.keys) + len(s.invitations.keys) + len(s.serviceAccounts.keys)
}

// Workspace returns the workspace. ok is false before its creation.
func (s *State) Workspace() (w Workspace, ok bool) {
	for _, row := range s.workspace.rows {
		return *row, true
	}
	return w, false
}

// Members returns the members.
func (s *State) Members() []Member { return listRows(&s.members, memberOf) }

// Invitations returns all invitations that ever existed.
func (s *State) Invitations() []Invitation { return listRows(&s.invitations, invitationOf) }

// ServiceAccounts returns all service accounts that ever existed.
func (s *State) ServiceAccounts() []ServiceAccount {
	return listRows(&s.serviceAccounts, serviceAccountOf)
}

// A rowSet has the rows of one view of one workspace, and their keys in order.
type rowSet[K comparable, R any] struct {
	rows map[fold.RowID[K]]*R
	keys []K
}

func applyTo[R, S any](set *rowSet[events.ID, R], f *fold.Table[events.ID, R], list StateList, r events.Record,
	show func(*R) S) (changes []StateChange, err error) {
	if set.rows == nil {
		set.rows = map[fold.RowID[events.ID]]*R{}
	}
	keys := f.Keys(r)
	before := make([]*R, len(keys))
	for i, k := range keys {
		before[i] = set.rows[fold.RowID[events.ID]{Workspace: r.Workspace, Key: k}]
	}
	if err := f.Fold(set.rows, r); err != nil {
		return nil, err
	}
	for i, k := range keys {
		id := fold.RowID[events.ID]{Workspace: r.Workspace, Key: k}
		after := set.rows[id]
		at, _ := slices.BinarySearchFunc(set.keys, k, func(a, b events.ID) int { return bytes.Compare(a[:], b[:]) })
		c := StateChange{List: list, Index: at}
		if before[i] != nil {
			c.Before = show(before[i])
		}
		if after != nil {
			c.After = show(after)
		}
		switch {
		case before[i] == nil && after == nil:
			delete(set.rows, id)
			continue
		case before[i] == nil:
			set.keys = slices.Insert(set.keys, at, k)
		case after == nil:
			delete(set.rows, id)
			set.keys = slices.Delete(set.keys, at, at+1)
		}
		changes = append(changes, c)
	}
	return changes, nil
}

func listRows[R, S any](set *rowSet[events.ID, R], show func(*R) S) []S {
	byKey := make(map[events.ID]*R, len(set.rows))
	for id, row := range set.rows {
		byKey[id.Key] = row
	}
	list := make([]S, 0, len(set.keys))
	for _, k := range set.keys {
		list = append(list, show(byKey[k]))
	}
	return list
}

func identity[R any](row *R) R { return *row }

func memberOf(m *memberRow) Member {
	return Member{ID: m.ID, User: m.User, Name: m.Name, Email: m.Email, Role: m.Role, ApproveLoops: m.ApproveLoops, JoinedAt: m.JoinedAt}
}

func invitationOf(i *invitationRow) Invitation {
	return Invitation{
		ID: i.ID, Workspace: i.Workspace, Email: i.Email, Role: i.Role, Status: i.Status,
		Inviter: i.Inviter, InviterName: i.InviterName, SentAt: i.SentAt, ExpiresAt: i.ExpiresAt,
	}
}

func serviceAccountOf(a *serviceAccountRow) ServiceAccount {
	return ServiceAccount{
		ID: a.ID, Name: a.Name, Scopes: a.Scopes, Tail: a.Tail, Status: a.Status,
		CreatedBy: a.CreatedBy, CreatedAt: a.CreatedAt, RotatedAt: a.RotatedAt, RevokedAt: a.RevokedAt,
	}
}
