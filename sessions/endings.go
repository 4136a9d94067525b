package sessions

import (
	"github.com/jackc/pgx/v5"

	"svc/events"
)

// Endings is a view that keeps sessions consistent with the log, in the transaction that
// appends: it deletes sessions that a person has ended, and unsets active workspaces that a
// person has left. So either both the event and its effect are stored, or neither is. It is
// passed to store.New.
type Endings struct{}

// Load reads nothing. It returns the changes that records imply.
func (Endings) Load(_ *pgx.Batch, records []events.Record) func(*pgx.Batch) error {
	var changes []func(*pgx.Batch)
	for _, r := range records {
		switch e := r.Event.(type) {
		case events.UserSignedOut:
			changes = append(changes, func(b *pgx.Batch) {
				b.Queue(`delete from sessions where user_id = $1 and session_id = any($2::uuid[])`, e.User, e.Sessions)
			})
		case events.MemberLeft:
			changes = append(changes, clearActiveWorkspace(e.User, r.Workspace))
		case events.MemberRemoved:
			changes = append(changes, clearActiveWorkspace(e.User, r.Workspace))
		}
	}
	if changes == nil {
		return nil
	}
	return func(b *pgx.Batch) error {
		for _, change := range changes {
			change(b)
		}
		return nil
	}
}

func clearActiveWorkspace(user, workspace events.ID) func(*pgx.Batch) {
	return func(b *pgx.Batch) {
		b.Queue(`update sessions set active_workspace_id = null where user_id = $1 and active_workspace_id = $2`, user, workspace)
	}
}
