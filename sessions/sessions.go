// Package sessions keeps who is signed in in a browser, and when people and
// service accounts were last seen. None of it is history: it is not in the log.
package sessions

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	lifetime    = 7 * 24 * time.Hour
	extendAfter = 24 * time.Hour // a session in use gets its whole lifetime again this often
	tokenBytes  = 24
)

// A Store keeps sessions in PostgreSQL: the SHA-256 of each token, never the
// token. Cookies carry the token, signed with Secret.
type Store struct {
	DB     *pgxpool.Pool
	Secret []byte
	Secure bool // the site is served over https
	Now    func() time.Time
}

// A Session is a browser in which a person is signed in.
type Session struct {
	ID           events.ID // a handle that may be shown
	User         events.ID
	Name         string
	Email        string
	AvatarURL    string
	RegisteredAt time.Time
	Active       *events.ID // the workspace that requests go to unless they name one
	CreatedAt    time.Time
	UpdatedAt    time.Time
	ExpiresAt    time.Time
	IP           string
	UserAgent    string

	token string
}

// Start signs a person in. active is the workspace they arrive in.
func (s *Store) Start(ctx context.Context, user, active events.ID, ip, userAgent string) (Session, error) {
	raw := make([]byte, tokenBytes)
	rand.Read(raw)
	token := base64.RawURLEncoding.EncodeToString(raw)
	now := s.Now()
	hash := sha256.Sum256([]byte(token))
	_, err := s.DB.Exec(ctx, `
		insert into sessions (token_hash, session_id, user_id, active_workspace_id, created_at, updated_at, expires_at, ip, user_agent)
		values ($1, $2, $3, $4, $5, $5, $6, $7, $8)`,
		hash[:], events.NewID(now), user, active, now, now.Add(lifetime), ip, userAgent)
	if err != nil {
		return Session{}, fmt.Errorf("start session of %s: %w", user, err)
	}
	session, ok, err := s.find(ctx, token)
	if err == nil && !ok {
		err = fmt.Errorf("start session of %s: no such person", user)
	}
	return session, err
}

// Find returns the session of a cookie's value. ok is false if there is none,
// it has ended, or the value was not signed with this secret. renewed tells
// that it was extended, so that the cookie has to be set again.
func (s *Store) Find(ctx context.Context, cookie string) (session Session, renewed, ok bool, err error) {
	token, ok := s.verify(cookie)
	if !ok {
		return Session{}, false, false, nil
	}
	session, ok, err = s.find(ctx, token)
	if err != nil || !ok {
		return Session{}, false, false, err
	}
	now := s.Now()
	if now.Sub(session.UpdatedAt) <= extendAfter {
		return session, false, true, nil
	}
	session.UpdatedAt, session.ExpiresAt = now, now.Add(lifetime)
	hash := sha256.Sum256([]byte(token))
	_, err = s.DB.Exec(ctx, `update sessions set updated_at = $2, expires_at = $3 where token_hash = $1`, hash[:], now, session.ExpiresAt)
	if err != nil {
		return Session{}, false, false, fmt.Errorf("extend session: %w", err)
	}
	return session, true, true, nil
}

func (s *Store) find(ctx context.Context, token string) (session Session, ok bool, err error) {
	hash := sha256.Sum256([]byte(token))
	row := s.DB.QueryRow(ctx, `
		select s.session_id, s.user_id, u.name, u.email, u.avatar_url, u.registered_at, s.active_workspace_id, s.created_at, s.updated_at, s.expires_at, s.ip, s.user_agent
		from sessions s join users u on u.user_id = s.user_id
		where s.token_hash = $1 and s.expires_at > $2`, hash[:], s.Now())
	err = row.Scan(&session.ID, &session.User, &session.Name, &session.Email, &session.AvatarURL, &session.RegisteredAt, &session.Active,
		&session.CreatedAt, &session.UpdatedAt, &session.ExpiresAt, &session.IP, &session.UserAgent)
	session.token = token
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Session{}, false, nil
	case err != nil:
		return Session{}, false, fmt.Errorf("find session: %w", err)
	}
	return session, true, nil
}

// End signs out the browser of a cookie's value. No session is no error.
func (s *Store) End(ctx context.Context, cookie string) error {
	token, ok := s.verify(cookie)
	if !ok {
		return nil
	}
	hash := sha256.Sum256([]byte(token))
	if _, err := s.DB.Exec(ctx, `delete from sessions where token_hash = $1`, hash[:]); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}
