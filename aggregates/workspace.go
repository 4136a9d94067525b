package aggregates

import (
	"fmt"
	"time"

	"svc/events"
	"svc/fault"
	"svc/input"
)

// The reasons for which a command about a workspace is refused.
var (
	ErrSlugTaken     = fault.New(fault.Conflict, "slug_taken", "Another workspace has this slug.")
	ErrPersonal      = fault.New(fault.Conflict, "workspace_personal", "A person's own workspace cannot be deleted: it holds their account.")
	ErrOwnerRequired = fault.New(fault.Denied, "owner_required", "Only an owner can make someone an owner.")
)

// A Workspace has a name, members of whom one is always an Owner, and invitations.
type Workspace struct {
	created bool
	name    string
	slug    string
	creator events.ID
	members map[events.ID]member
	byUser  map[events.ID]events.ID // the member id of each user
	owners  int

	invitations     map[events.ID]invitation // pending ones
	invited         map[string]events.ID     // the pending invitation of each address
	pendingBySender map[events.ID]expiries   // pending ones, by their last sender
	closed          []events.ID              // the last maxClosed that were answered or revoked, in that order

	purgeAt time.Time // when it is purged, if it was deleted; zero otherwise
	purging bool      // that has begun
}

// Apply adds one event and who caused it. Events before WorkspaceCreated are ignored,
// because any stream may be loaded as a workspace's.
func (w *Workspace) Apply(e events.Event, by events.Actor) {
	if _, begins := e.(events.WorkspaceCreated); !w.created && !begins {
		return
	}
	switch e := e.(type) {
	case events.WorkspaceCreated:
		w.created, w.name, w.slug, w.creator = true, e.Name, e.Slug, by.ID
		w.members, w.byUser = map[events.ID]member{}, map[events.ID]events.ID{}
		w.invitations, w.invited, w.closed = map[events.ID]invitation{}, map[string]events.ID{}, nil
		w.pendingBySender = map[events.ID]expiries{}
	case events.WorkspaceRenamed:
		w.name, w.slug = e.Name, e.Slug
	case events.WorkspaceDeleted:
		w.purgeAt = e.PurgeAt
	case events.WorkspaceRestored:
		w.purgeAt = time.Time{}
	case events.WorkspacePurgeBegan:
		w.purging = true
	case events.MemberJoined:
		w.putMember(e.Member, member{user: e.User, email: e.Email, role: e.Role})
	case events.MemberRoleChanged:
		m := w.members[e.Member]
		m.role = e.To
		w.putMember(e.Member, m)
	case events.MemberApproveLoopsSet:
		m := w.members[e.Member]
		m.approveLoops = &e.To
		w.putMember(e.Member, m)
	case events.MemberProfileChanged:
		m := w.members[e.Member]
		m.email = e.Email
		w.putMember(e.Member, m)
	case events.MemberLeft:
		w.dropMember(e.Member)
	case events.MemberRemoved:
		w.dropMember(e.Member)
	default:
		w.applyInvitation(e, by.ID)
	}
}

// Create creates the workspace with its first Owner. It returns no event if the workspace
// exists.
func (w *Workspace) Create(name, slug string, owner events.MemberJoined) ([]events.Event, error) {
	if w.created {
		return nil, nil
	}
	name, err := input.Name("name", name)
	if err != nil {
		return nil, err
	}
	if err := input.Slug.Check("slug", slug); err != nil {
		return nil, err
	}
	owner.Role = events.Owner
	return []events.Event{events.WorkspaceCreated{Name: name, Slug: slug}, owner}, nil
}

// Rename changes the workspace's name, slug or both; nil leaves a value as it is. Only an
// Owner may.
func (w *Workspace) Rename(by events.ID, name, slug *string) ([]events.Event, error) {
	if err := w.Allow(by, events.ChangeWorkspace); err != nil {
		return nil, err
	}
	e := events.WorkspaceRenamed{FromName: w.name, FromSlug: w.slug, Name: w.name, Slug: w.slug}
	if name != nil { // an unchanged name is accepted even if today's rules would refuse it
		kept, err := input.Name("name", *name)
		if err != nil {
			return nil, err
		}
		e.Name = kept
	}
	if slug != nil && *slug != w.slug {
		if err := input.Slug.Check("slug", *slug); err != nil {
			return nil, err
		}
		e.Slug = *slug
	}
	if e.Name == w.name && e.Slug == w.slug {
		return nil, nil
	}
	return oneEvent(e)
}

// Deleted reports whether the workspace was deleted and not restored. Nobody has a role in it.
func (w *Workspace) Deleted() bool { return !w.purgeAt.IsZero() }

// Creator returns who created the workspace.
func (w *Workspace) Creator() events.ID { return w.creator }

// Delete deletes the workspace, whose name has to be given. Only an Owner may.
func (w *Workspace) Delete(by events.ID, name string, at time.Time) ([]events.Event, error) {
	if err := w.Allow(by, events.DeleteWorkspace); err != nil {
		return nil, err
	}
	if name != w.name {
		return nil, fault.Field("name", "must be the workspace's name")
	}
	return oneEvent(events.WorkspaceDeleted{Name: w.name, Slug: w.slug, PurgeAt: at.UTC().Add(events.RestorableFor)})
}

// Undelete restores the workspace while there is time. Only an Owner of it may. It returns no event if the
// workspace was not deleted.
func (w *Workspace) Undelete(by events.ID, at time.Time) ([]events.Event, error) {
	role := w.members[w.byUser[by]].role
	switch {
	case role == "", w.purging, w.Deleted() && !at.Before(w.purgeAt):
		return nil, fault.ErrTenantNotFound
	case !role.May(events.DeleteWorkspace):
		return nil, RoleRequired(events.DeleteWorkspace)
	case !w.Deleted():
		return nil, nil
	}
	return oneEvent(events.WorkspaceRestored{Name: w.name, Slug: w.slug})
}

// Purge ends the time in which the workspace can be restored. It returns no event if that was done before.
func (w *Workspace) Purge(at time.Time) ([]events.Event, error) {
	switch {
	case !w.Deleted() || at.Before(w.purgeAt):
		return nil, fmt.Errorf("purge workspace %s: its log does not say that it is due", w.slug)
	case w.purging:
		return nil, nil
	}
	return oneEvent(events.WorkspacePurgeBegan{Slug: w.slug})
}
