package sessions

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc/events"
)

// SetActive makes a workspace the one that the session's requests go to unless
// they name another. nil leaves none.
func (s *Store) SetActive(ctx context.Context, session events.ID, workspace *events.ID) error {
	if _, err := s.DB.Exec(ctx, `update sessions set active_workspace_id = $2 where session_id = $1`, session, workspace); err != nil {
		return fmt.Errorf("set active workspace of session %s: %w", session, err)
	}
	return nil
}

// Leave takes a workspace from every session of a person who is no longer in it.
func (s *Store) Leave(ctx context.Context, user, workspace events.ID) error {
	_, err := s.DB.Exec(ctx, `update sessions set active_workspace_id = null where user_id = $1 and active_workspace_id = $2`, user, workspace)
	if err != nil {
		return fmt.Errorf("leave %s in the sessions of %s: %w", workspace, user, err)
	}
	return nil
}

// Of returns the sessions of a person that have not ended, the newest first.
func (s *Store) Of(ctx context.Context, user events.ID) ([]Session, error) {
	rows, _ := s.DB.Query(ctx, selectSession+`where s.user_id = $1 and s.expires_at > $2 order by s.created_at desc, s.session_id desc`, user, s.Now())
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("sessions of %s: %w", user, err)
	}
	return list, nil
}

// Revoke ends sessions of a person: the one of that id or, if id is zero, all
// but the one of keep. It returns those that it ended.
func (s *Store) Revoke(ctx context.Context, user, id, keep events.ID) ([]events.ID, error) {
	sql, which := `delete from sessions where user_id = $1 and session_id = $2 returning session_id`, id
	if id.IsZero() {
		sql, which = `delete from sessions where user_id = $1 and session_id <> $2 returning session_id`, keep
	}
	rows, _ := s.DB.Query(ctx, sql, user, which)
	ended, err := pgx.CollectRows(rows, pgx.RowTo[events.ID])
	if err != nil {
		return nil, fmt.Errorf("revoke sessions of %s: %w", user, err)
	}
	return ended, nil
}

func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}
