package projections

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
	"svc/projections/query"
)

// Invitations is the view of all invitations. It is inline.
type Invitations struct{ DB *pgxpool.Pool }

type invitationRow struct {
	Workspace   events.ID   `db:"workspace_id"`
	ID          events.ID   `db:"invitation_id"`
	Email       string      `db:"email"`
	Role        events.Role `db:"role"`
	Status      string      `db:"status"`
	Inviter     events.ID   `db:"inviter_id"` // who sent it last
	InviterName string      `db:"inviter_name"`
	SentAt      time.Time   `db:"sent_at"` // first time
	ExpiresAt   time.Time   `db:"expires_at"`
}

// The status of an invitation. A row stays pending when the invitation expires: queries compare
// expires_at with the clock.
const (
	InvitationPending  = "pending"
	InvitationAccepted = "accepted"
	InvitationRejected = "rejected"
	InvitationRevoked  = "revoked"
)

var invitations = &fold.Table[events.ID, invitationRow]{
	View: "invitations", Updated: fold.Inline, Key: "invitation_id",
	Kinds: []string{"invitation"},
	Keys: func(r events.Record) []events.ID {
		switch e := r.Event.(type) {
		case events.InvitationSent:
			return []events.ID{e.Invitation}
		case events.InvitationResent:
			return []events.ID{e.Invitation}
		case events.InvitationRevoked:
			return []events.ID{e.Invitation}
		case events.InvitationAccepted:
			return []events.ID{e.Invitation}
		case events.InvitationRejected:
			return []events.ID{e.Invitation}
		}
		return nil
	},
	Apply: func(id events.ID, i *invitationRow, r events.Record) *invitationRow {
		if e, ok := r.Event.(events.InvitationSent); ok {
			return &invitationRow{
				Workspace: r.Workspace, ID: id, Email: e.Email, Role: e.Role, Status: InvitationPending,
				Inviter: r.Actor.ID, InviterName: r.Actor.Name, SentAt: r.At, ExpiresAt: e.ExpiresAt,
			}
		}
		after := *i
		switch e := r.Event.(type) {
		case events.InvitationResent:
			after.ExpiresAt, after.Inviter, after.InviterName = e.ExpiresAt, r.Actor.ID, r.Actor.Name
		case events.InvitationRevoked:
			after.Status = InvitationRevoked
		case events.InvitationAccepted:
			after.Status = InvitationAccepted
		case events.InvitationRejected:
			after.Status = InvitationRejected
		}
		return &after
	},
}

// An Invitation is an invitation with the workspace it is for.
type Invitation struct {
	ID            events.ID
	Workspace     events.ID
	WorkspaceName string
	WorkspaceSlug string
	Email         string
	Role          events.Role
	Status        string
	Inviter       events.ID
	InviterName   string
	InviterRole   events.Role // present role; empty if the inviter is no longer a member
	SentAt        time.Time
	ExpiresAt     time.Time
}

// Acceptable reports whether the invitee may accept it at a time, by the rules of the command: it
// is pending, has not expired, and its inviter may still invite to that role.
func (i Invitation) Acceptable(at time.Time) bool {
	return i.Status == InvitationPending && at.Before(i.ExpiresAt) && i.InviterRole.MayInvite(i.Role)
}

const selectInvitations = `
	select i.invitation_id, i.workspace_id, w.name, w.slug, i.email, i.role, i.status,
		i.inviter_id, i.inviter_name, coalesce(m.role, ''), i.sent_at, i.expires_at
	from invitations i join workspaces w on w.workspace_id = i.workspace_id
	left join members m on m.workspace_id = i.workspace_id and m.user_id = i.inviter_id `

// Page returns the pending invitations of a workspace, newest first, and the number on all pages.
func (v Invitations) Page(ctx context.Context, workspace events.ID, limit, offset int) (list []Invitation, total int, err error) {
	list, err = v.Pending(ctx, workspace, limit, offset)
	if err != nil {
		return nil, 0, err
	}
	err = v.DB.QueryRow(ctx, `select count(*) from invitations where workspace_id = $1 and status = 'pending'`, workspace).Scan(&total)
	return list, total, fault.Wrap(err, "count invitations of %s", workspace)
}

// Pending is [Invitations.Page] without the number.
func (v Invitations) Pending(ctx context.Context, workspace events.ID, limit, offset int) ([]Invitation, error) {
	return v.list(ctx, `where i.workspace_id = $1 and i.status = 'pending' order by i.sent_at desc, i.invitation_id desc limit $2 offset $3`,
		workspace, limit, offset)
}

// ForAddresses returns invitations to any of the addresses that can be accepted at a time, newest
// first. It reads up to limit pending ones and drops those whose inviter may no longer send them.
func (v Invitations) ForAddresses(ctx context.Context, addresses []string, at time.Time, limit int) ([]Invitation, error) {
	list, err := v.list(ctx, `where i.email = any($1) and i.status = 'pending' and i.expires_at > $2
		order by i.sent_at desc, i.invitation_id desc limit $3`,
		addresses, at, limit)
	return slices.DeleteFunc(list, func(i Invitation) bool { return !i.Acceptable(at) }), err
}

// ForAddress returns a workspace's pending invitation to an address. ok is false if there is none.
func (v Invitations) ForAddress(ctx context.Context, workspace events.ID, address string) (i Invitation, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, selectInvitations+`where i.workspace_id = $1 and i.email = $2 and i.status = 'pending'`, workspace, address)
	return query.Optional[Invitation](rows, "invitation to "+workspace.String())
}

// Get returns one invitation of a workspace. ok is false if there is none.
func (v Invitations) Get(ctx context.Context, workspace, id events.ID) (i Invitation, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, selectInvitations+`where i.workspace_id = $1 and i.invitation_id = $2`, workspace, id)
	return query.Optional[Invitation](rows, "invitation "+id.String())
}

func (v Invitations) list(ctx context.Context, where string, args ...any) ([]Invitation, error) {
	rows, _ := v.DB.Query(ctx, selectInvitations+where, args...)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Invitation])
	return list, fault.Wrap(err, "list invitations")
}
