package sessions

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc/events"
	"svc/fault"
)

// SetActive sets the workspace of the session's requests that name none. ok is false, and nothing
// is set, if the person is not a member of it. The lock makes it wait for a removal that is under
// way, and a later removal wait for it; so no removed person keeps the workspace, see [Endings].
func (s *Store) SetActive(ctx context.Context, session Session, workspace events.ID) (ok bool, err error) {
	err = s.DB.QueryRow(ctx, `
		with m as (select workspace_id from members where workspace_id = $1 and user_id = $2 for key share),
			done as (update sessions s set active_workspace_id = m.workspace_id from m where s.token_hash = $3)
		select exists (select from m)`, workspace, session.User, session.hash).Scan(&ok)
	return ok, fault.Wrap(err, "set active workspace of session %s", session.ID)
}

// UnsetActive makes the session's requests that name no workspace concern none.
func (s *Store) UnsetActive(ctx context.Context, session Session) error {
	_, err := s.DB.Exec(ctx, `update sessions set active_workspace_id = null where token_hash = $1`, session.hash)
	return fault.Wrap(err, "unset active workspace of session %s", session.ID)
}

// ForUser returns up to limit sessions of a person that have not ended, newest first. It omits rows
// with a wrong code, which are not reported: those of an earlier Secret are harmless.
func (s *Store) ForUser(ctx context.Context, user events.ID, limit int) ([]Session, error) {
	rows, _ := s.DB.Query(ctx,
		selectSession+`where s.user_id = $1 and s.expires_at > $2 order by s.created_at desc, s.session_id desc limit $3`,
		user, s.Now(), limit)
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read sessions of %s: %w", user, err)
	}
	return slices.DeleteFunc(list, func(session Session) bool { return !s.authentic(&session) }), nil
}

// Discard deletes a session whose cookie was never sent.
func (s *Store) Discard(ctx context.Context, session Session) error {
	_, err := s.DB.Exec(ctx, `delete from sessions where token_hash = $1`, digest(session.token))
	return fault.Wrap(err, "discard session %s", session.ID)
}

func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
