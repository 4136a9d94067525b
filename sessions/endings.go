package sessions

import (
	"github.com/jackc/pgx/v5"

	"svc/events"
)

// Endings keeps sessions in step with the log, in the transaction that appends:
// those that a person ended are gone when it says so, and so is a workspace that
// somebody is no longer in from theirs. A process that dies, or a database that
// fails, leaves both as they were. It goes among the views of a store.
type Endings struct{}

// Load queues nothing to read.
func (Endings) Load(_ *pgx.Batch, records []events.Record) func(*pgx.Batch) error {
	var changes []func(*pgx.Batch)
	for _, r := range records {
		switch e := r.Event.(type) {
		case events.UserSignedOut:
			changes = append(changes, func(b *pgx.Batch) {
				b.Queue(`delete from sessions where user_id = $1 and session_id = any($2::uuid[])`, e.User, e.Sessions)
			})
		case events.MemberLeft:
			changes = append(changes, leave(e.User, r.Workspace))
		case events.MemberRemoved:
			changes = append(changes, leave(e.User, r.Workspace))
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

func leave(user, workspace events.ID) func(*pgx.Batch) {
	return func(b *pgx.Batch) {
		b.Queue(`update sessions set active_workspace_id = null where user_id = $1 and active_workspace_id = $2`, user, workspace)
	}
}
