package aggregates

import (
	"strings"
	"time"

	"svc/events"
	"svc/fault"
)

// The reasons for which a change of members is refused.
var (
	ErrNoMember        = fault.New(fault.NotFound, "member_not_found", "There is no such member.")
	ErrMemberForbidden = fault.New(fault.Denied, "member_update_forbidden", "You are not allowed to update this member.")
	ErrLastOwner       = fault.New(fault.Conflict, "last_owner", "This is the workspace's last owner. "+
		"Make someone else an owner before changing this role.")
	ErrAlreadyMember = fault.New(fault.Conflict, "already_member", "User is already a member of this organization.")
	ErrRoleRequired  = fault.New(fault.Denied, "role_required", "Your role does not allow this.")
)

type member struct {
	user         events.ID
	email        string
	role         events.Role
	approveLoops *bool
}

func (w *Workspace) putMember(id events.ID, m member) {
	w.dropMember(id)
	w.members[id], w.byUser[m.user] = m, id
	if m.role == events.Owner {
		w.owners++
	}
}

func (w *Workspace) dropMember(id events.ID) {
	m, ok := w.members[id]
	if !ok {
		return
	}
	if m.role == events.Owner {
		w.owners--
	}
	delete(w.byUser, m.user)
	delete(w.members, id)
}

// Role returns the role of a user, "" if they are not a member or the workspace was deleted.
func (w *Workspace) Role(user events.ID) events.Role {
	if w.Deleted() {
		return ""
	}
	return w.members[w.byUser[user]].role
}

// Allow returns an error unless the user's role has the right.
func (w *Workspace) Allow(by events.ID, right events.Right) error {
	switch role := w.Role(by); {
	case role == "":
		return fault.ErrTenantNotFound
	case !role.May(right):
		return RoleRequired(right)
	}
	return nil
}

// RoleRequired is [ErrRoleRequired] with the roles that have a right.
func RoleRequired(right events.Right) *fault.Fault {
	return ErrRoleRequired.With("required", right.Roles())
}

// Join adds a member.
func (w *Workspace) Join(e events.MemberJoined) ([]events.Event, error) {
	if !w.created || w.Deleted() {
		return nil, fault.ErrTenantNotFound
	}
	if _, ok := w.byUser[e.User]; ok {
		return nil, ErrAlreadyMember
	}
	return oneEvent(e)
}

// Update changes a member's role, their approve-loops setting, or both; nil leaves a value
// as it is. Once set, approve-loops stays as it is when the role changes. Invitations that
// the member could not send in the new role are revoked.
func (w *Workspace) Update(by, id events.ID, role *events.Role, approveLoops *bool, at time.Time) (list []events.Event, err error) {
	if err := w.Allow(by, events.ManageMembers); err != nil {
		return nil, err
	}
	m, err := w.changeable(by, id)
	if err != nil {
		return nil, err
	}
	if role != nil && *role != m.role {
		if err := w.mayGive(by, m, *role); err != nil {
			return nil, err
		}
		list = append(list, events.MemberRoleChanged{Member: id, User: m.user, Email: m.email, From: m.role, To: *role})
		list = append(list, w.withdraw(m.user, *role, at)...)
		m.role = *role
	}
	if approveLoops != nil && (m.approveLoops == nil || *m.approveLoops != *approveLoops) {
		from := events.MayApproveLoops(m.role, m.approveLoops)
		list = append(list, events.MemberApproveLoopsSet{Member: id, User: m.user, Email: m.email, From: from, To: *approveLoops})
	}
	return list, nil
}

// ErrNotAssignable refuses to give a role that is not one of [events.AssignableRoles].
var ErrNotAssignable = fault.Field("role", "must be one of %s", roleNames(events.AssignableRoles()))

func roleNames(roles []events.Role) string {
	var names []string
	for _, r := range roles {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// mayGive returns an error if by may not give m the role to.
func (w *Workspace) mayGive(by events.ID, m member, to events.Role) error {
	switch {
	case !to.Assignable():
		return ErrNotAssignable
	case to == events.Owner && !w.Role(by).May(events.ManageOwners):
		return ErrOwnerRequired
	case m.role == events.Owner && w.owners == 1:
		return ErrLastOwner
	}
	return nil
}

// RefreshMember records a new name and address of a member. The workspace does not keep names, so
// the caller has to know that something changed.
func (w *Workspace) RefreshMember(user events.ID, name, email string) ([]events.Event, error) {
	id, ok := w.byUser[user]
	if !ok || w.Deleted() {
		return nil, nil // has left meanwhile
	}
	return oneEvent(events.MemberProfileChanged{Member: id, User: user, Email: email, Name: name})
}

// Remove removes a member, or lets members who remove themselves leave. Invitations that
// the member sent are revoked.
func (w *Workspace) Remove(by, id events.ID, at time.Time) ([]events.Event, error) {
	m, ok := w.members[id]
	leaves := ok && m.user == by && !w.Deleted()
	if !leaves {
		if err := w.Allow(by, events.ManageMembers); err != nil {
			return nil, err
		}
		if _, err := w.changeable(by, id); err != nil {
			return nil, err
		}
	}
	var gone events.Event = events.MemberRemoved{Member: id, User: m.user, Email: m.email, Role: m.role}
	switch {
	case m.role == events.Owner && w.owners == 1:
		return nil, ErrLastOwner
	case leaves:
		gone = events.MemberLeft{Member: id, User: m.user, Email: m.email, Role: m.role}
	}
	return append([]events.Event{gone}, w.withdraw(m.user, "", at)...), nil
}

// changeable returns a member whom by may change: only an Owner may change an Owner. It
// assumes that by may manage members.
func (w *Workspace) changeable(by, id events.ID) (member, error) {
	m, ok := w.members[id]
	switch {
	case !ok:
		return m, ErrNoMember
	case m.role == events.Owner && !w.Role(by).May(events.ManageOwners):
		return m, ErrMemberForbidden
	}
	return m, nil
}
