package audit

import (
	"slices"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
)

// A cell is a field of a row: as it was before the event, and as it is after.
type cell struct{ before, after string }

func (c cell) changed() bool { return c.before != c.after }

// A stateRow is a row of the state, in the words of the page.
type stateRow struct {
	list             string // of what: "members", "invitations" or "accounts"
	id, name, detail string
	face             string // what the colour of a member's picture is made of
	what, may        cell
	legacy           bool // of a member whose role is the former one
}

// changed reports whether the event made, changed or removed the row.
func (r stateRow) changed() bool { return r.what.changed() || r.may.changed() }

// compare returns the rows of both states, those of the later one first. What is no
// longer of interest, such as an accepted invitation, is left out unless the event did it.
func compare(before, after client.WorkspaceState, at time.Time) []stateRow {
	old, now := rowsOf(before, at), rowsOf(after, at)
	index := map[string]int{}
	for i, r := range old {
		index[r.list+r.id] = i
	}
	for i := range now {
		r := &now[i]
		if j, ok := index[r.list+r.id]; ok {
			r.what.before, r.may.before = old[j].what.after, old[j].may.after
			delete(index, r.list+r.id)
		}
	}
	for i, r := range old {
		if j, gone := index[r.list+r.id]; gone && i == j {
			r.what, r.may = cell{before: r.what.after}, cell{before: r.may.after}
			now = append(now, r)
		}
	}
	return slices.DeleteFunc(now, func(r stateRow) bool {
		return !r.changed() && r.list == "invitations" && !isOpen(r.may.after)
	})
}

func rowsOf(s client.WorkspaceState, at time.Time) (list []stateRow) {
	for _, m := range s.Members {
		r := stateRow{list: "members", id: m.Id, name: m.Name, detail: m.Email, face: m.UserId}
		if r.name == "" {
			r.name, r.detail = m.Email, ""
		}
		r.what.after, r.may.after = string(m.Role), "No"
		if m.CanApproveLoops {
			r.may.after = "Yes"
		}
		if r.what.after == "member" {
			r.what.after, r.legacy = "Viewer", true
		}
		list = append(list, r)
	}
	for _, i := range s.Invitations {
		list = append(list, stateRow{
			list: "invitations", id: i.Id, name: i.Email, what: cell{after: string(i.Role)}, may: cell{after: stateOf(i, at)},
		})
	}
	for _, a := range s.ServiceAccounts {
		r := stateRow{list: "accounts", id: a.Id, name: a.Name, detail: "tok_svc_…" + a.TokenTail, may: cell{after: string(a.Status)}}
		for i, scope := range a.Scopes {
			if i > 0 {
				r.what.after += ", "
			}
			r.what.after += string(scope)
		}
		list = append(list, r)
	}
	return list
}

const (
	active  = string(client.StateServiceAccountStatusActive)
	expired = "expired"
)

// stateOf is the state of an invitation at a time.
func stateOf(i client.StateInvitation, at time.Time) string {
	switch left := i.ExpiresAt.Sub(at); {
	case i.Status != client.StateInvitationStatusPending:
		return string(i.Status)
	case left <= 0:
		return expired
	default:
		return "pending, " + kit.Left(left) + " left"
	}
}

// isOpen reports whether an invitation of that state was neither answered nor withdrawn.
func isOpen(state string) bool { return state == expired || strings.HasPrefix(state, "pending") }

// of returns the rows of one list, at most maxRows.
func (d replayed) of(list string) (rows []stateRow) {
	for _, r := range d.rows {
		if r.list == list && len(rows) < maxRows {
			rows = append(rows, r)
		}
	}
	return rows
}

// count returns how many of a list there are after the event: no one who has left, no
// answered invitation, no revoked account.
func (d replayed) count(list string) (n int) {
	for _, r := range d.rows {
		is := r.may.after
		if r.list == list && (list == "members" && is != "" || list == "invitations" && isOpen(is) || list == "accounts" && is == active) {
			n++
		}
	}
	return n
}

const maxRows = 200 // of a list that are shown
