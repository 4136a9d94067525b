package audit

import (
	"slices"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
)

// A cell is a field of a row before and after the event.
type cell struct{ before, after string }

func (c cell) changed() bool { return c.before != c.after }

// A stateRow is a row of the state as the page shows it.
type stateRow struct {
	list             string // "members", "invitations" or "accounts"
	id, name, detail string
	avatarSeed       string // determines the colour of a member's avatar
	access           cell   // a role, or scopes
	status           cell   // whether a member may approve loops, or a state
	legacy           bool   // whether the member has the legacy role "member"
}

// changed reports whether the event added, changed or removed the row.
func (r stateRow) changed() bool { return r.access.changed() || r.status.changed() }

// compareStates returns the rows of both states, those of the later one first, without
// closed invitations that the event did not change.
func compareStates(before, after client.WorkspaceState, at time.Time) []stateRow {
	old, now := rowsOf(before, at), rowsOf(after, at)
	index := map[string]int{}
	for i, r := range old {
		index[r.list+r.id] = i
	}
	for i := range now {
		r := &now[i]
		if j, ok := index[r.list+r.id]; ok {
			r.access.before, r.status.before = old[j].access.after, old[j].status.after
			delete(index, r.list+r.id)
		}
	}
	for i, r := range old {
		if j, gone := index[r.list+r.id]; gone && i == j {
			r.access, r.status = cell{before: r.access.after}, cell{before: r.status.after}
			now = append(now, r)
		}
	}
	return slices.DeleteFunc(now, func(r stateRow) bool {
		return !r.changed() && r.list == "invitations" && !isOpen(r.status.after)
	})
}

func rowsOf(s client.WorkspaceState, at time.Time) (list []stateRow) {
	for _, m := range s.Members {
		r := stateRow{list: "members", id: m.Id, name: m.Name, detail: m.Email, avatarSeed: m.UserId}
		if r.name == "" {
			r.name, r.detail = m.Email, ""
		}
		r.access.after, r.status.after = string(m.Role), "No"
		if m.CanApproveLoops {
			r.status.after = "Yes"
		}
		if r.access.after == "member" {
			r.access.after, r.legacy = "Viewer", true
		}
		list = append(list, r)
	}
	for _, i := range s.Invitations {
		list = append(list, stateRow{
			list: "invitations", id: i.Id, name: i.Email, access: cell{after: string(i.Role)}, status: cell{after: invitationState(i, at)},
		})
	}
	for _, a := range s.ServiceAccounts {
		r := stateRow{list: "accounts", id: a.Id, name: a.Name, detail: "tok_svc_…" + a.TokenTail, status: cell{after: string(a.Status)}}
		for i, scope := range a.Scopes {
			if i > 0 {
				r.access.after += ", "
			}
			r.access.after += string(scope)
		}
		list = append(list, r)
	}
	return list
}

const (
	active  = string(client.StateServiceAccountStatusActive)
	expired = "expired"
)

// invitationState describes the state of an invitation at a time.
func invitationState(i client.StateInvitation, at time.Time) string {
	switch left := i.ExpiresAt.Sub(at); {
	case i.Status != client.StateInvitationStatusPending:
		return string(i.Status)
	case left <= 0:
		return expired
	default:
		return "pending, " + kit.Left(left) + " left"
	}
}

// isOpen reports whether an invitation in that state has been neither answered nor withdrawn.
func isOpen(state string) bool { return state == expired || strings.HasPrefix(state, "pending") }

// rowsIn returns the rows of one list, at most maxRows.
func (d replayData) rowsIn(list string) (rows []stateRow) {
	for _, r := range d.rows {
		if r.list == list && len(rows) < maxRows {
			rows = append(rows, r)
		}
	}
	return rows
}

// count returns the number of current members, open invitations or active accounts after
// the event.
func (d replayData) count(list string) (n int) {
	for _, r := range d.rows {
		is := r.status.after
		if r.list == list && (list == "members" && is != "" || list == "invitations" && isOpen(is) || list == "accounts" && is == active) {
			n++
		}
	}
	return n
}

const maxRows = 200 // shown of each list
