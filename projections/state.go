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

// ErrUnreadable says that the state of a workspace cannot be told, because of
// an event that this build cannot take in.
var ErrUnreadable = fault.New(fault.Conflict, "event_unreadable",
	"An event before this point cannot be read by this version of the service.")

// maxStateRows is how many members, invitations and service accounts a state
// has at most: whoever asks for one has them all in memory.
const maxStateRows = 100_000

// ErrStateTooLarge says that the state of a workspace has too many rows to be told.
var ErrStateTooLarge = fault.New(fault.Conflict, "state_too_large",
	"The workspace has had more than %d members, invitations and service accounts by then. Export the audit log instead.", maxStateRows)

// A State is a workspace after its event Seq: the folds of the views, in memory.
// Its lists are in the order of their ids. The zero State is before all events.
type State struct {
	Seq       int64
	At        time.Time
	workspace rowSet[events.ID, Workspace]

	members         rowSet[events.ID, memberRow]
	invitations     rowSet[events.ID, invitationRow]
	serviceAccounts rowSet[events.ID, serviceAccountRow]
}

// A List names one of a state's lists.
type List string

// The lists; the workspace is one of one.
const (
	InWorkspace       List = "workspace"
	InMembers         List = "members"
	InInvitations     List = "invitations"
	InServiceAccounts List = "serviceAccounts"
)

// A StateChange is what an event did to one row: it was made if Before is nil,
// and removed if After is. Index is its place in the list, then and there. Rows
// are a [Workspace], [Member], [Invitation] or [ServiceAccount], without what
// other views know of them.
type StateChange struct {
	List          List
	Index         int
	Before, After any
}

// Take folds the next event into s.
func (s *State) Take(r events.Record) ([]StateChange, error) {
	if _, unread := r.Event.(events.Undecoded); unread && events.NounOf(r.Event.Kind()).State {
		return nil, ErrUnreadable.With("seq", r.Seq)
	}
	s.Seq, s.At = r.Seq, r.At
	var list []StateChange
	for _, take := range []func() ([]StateChange, error){
		func() ([]StateChange, error) { return take(&s.workspace, workspaces, InWorkspace, r, shown[Workspace]) },
		func() ([]StateChange, error) { return take(&s.members, members, InMembers, r, memberOf) },
		func() ([]StateChange, error) {
			return take(&s.invitations, invitations, InInvitations, r, invitationOf)
		},
		func() ([]StateChange, error) {
			return take(&s.serviceAccounts, serviceAccounts, InServiceAccounts, r, serviceAccountOf)
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

// rows is how many rows the lists have.
func (s *State) rows() int {
	return len(s.members.keys) + len(s.invitations.keys) + len(s.serviceAccounts.keys)
}

// Workspace returns the workspace. ok is false before it was made.
func (s *State) Workspace() (w Workspace, ok bool) {
	for _, row := range s.workspace.rows {
		return *row, true
	}
	return w, false
}

// Members returns the members.
func (s *State) Members() []Member { return each(&s.members, memberOf) }

// Invitations returns all invitations there ever were.
func (s *State) Invitations() []Invitation { return each(&s.invitations, invitationOf) }

// ServiceAccounts returns all service accounts there ever were.
func (s *State) ServiceAccounts() []ServiceAccount { return each(&s.serviceAccounts, serviceAccountOf) }

// A rowSet is the rows of a fold of one workspace, with their keys in order.
type rowSet[K comparable, R any] struct {
	rows map[fold.RowID[K]]*R
	keys []K
}

func take[R, S any](set *rowSet[events.ID, R], f *fold.Table[events.ID, R], list List, r events.Record,
	show func(*R) S) (changes []StateChange, err error) {
	if set.rows == nil {
		set.rows = map[fold.RowID[events.ID]]*R{}
	}
	keys := f.Keys(r)
	before := make([]*R, len(keys))
	for i, k := range keys {
		before[i] = set.rows[fold.RowID[events.ID]{Workspace: r.Workspace, Key: k}]
	}
	if err := f.Take(set.rows, r); err != nil {
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

func each[R, S any](set *rowSet[events.ID, R], show func(*R) S) []S {
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

func shown[R any](row *R) R { return *row }

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
