// Package sessions keeps who is signed in in a browser, when people and service
// accounts were last seen, and how much a person did today of what is bounded a
// day. None of it is history: it is not in the log.
package sessions

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/lookup"
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

	found lookup.Group[[sha256.Size]byte, Session]
}

// A Session is a browser in which a person is signed in.
type Session struct {
	ID           events.ID // a handle that may be shown
	User         events.ID
	Home         events.ID // their personal workspace
	Name         string
	Email        string   // the primary address
	Emails       []string // every verified one
	AvatarURL    string
	RegisteredAt time.Time
	Active       *events.ID // the workspace that requests go to unless they name one
	CreatedAt    time.Time
	UpdatedAt    time.Time
	ExpiresAt    time.Time
	IP           string
	UserAgent    string
	Member       *Member // in the active workspace; nil if they are not, or nobody asked

	token string
	hash  []byte // of token
}

// A Member is what a person is in the workspace that is active in a session. It is read
// together with the session, because most requests need both.
type Member struct {
	ID           events.ID
	Slug         string // of the workspace
	Role         events.Role
	ApproveLoops *bool // nil: the role decides
}

// Has reports whether the person has verified an address.
func (s Session) Has(address string) bool { return slices.Contains(s.Emails, address) }

// sessionsMost is how many sessions one person has at once.
const sessionsMost = 100

// Start signs a person in. active is the workspace they arrive in. It also
// clears away sessions of theirs that have ended, and ends the oldest ones that
// would be too many.
func (s *Store) Start(ctx context.Context, user, active events.ID, ip, userAgent string) (Session, error) {
	raw := make([]byte, tokenBytes)
	rand.Read(raw)
	token := base64.RawURLEncoding.EncodeToString(raw)
	now := s.Now()
	_, err := s.DB.Exec(ctx, `
		with ended as (
			delete from sessions where user_id = $3 and (expires_at <= $5 or session_id in (
				select session_id from sessions where user_id = $3 and expires_at > $5 order by created_at desc, session_id desc offset $9)))
		insert into sessions (token_hash, session_id, user_id, active_workspace_id, created_at, updated_at, expires_at, ip, user_agent)
		values ($1, $2, $3, $4, $5, $5, $6, $7, $8)`,
		digest(token), events.NewID(now), user, active, now, now.Add(lifetime), ip, userAgent, sessionsMost-1)
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
	extended, err := s.DB.Exec(ctx, `update sessions set updated_at = $2, expires_at = $3 where token_hash = $1`, digest(token), now, session.ExpiresAt)
	if err != nil {
		return Session{}, false, false, fmt.Errorf("extend session: %w", err)
	}
	ended := extended.RowsAffected() == 0 // meanwhile
	return session, !ended, !ended, nil
}

// Lasts reports whether the session of a cookie's value goes on. It does not
// extend it.
func (s *Store) Lasts(ctx context.Context, cookie string) (bool, error) {
	token, ok := s.verify(cookie)
	if !ok {
		return false, nil
	}
	_, ok, err := s.find(ctx, token)
	return ok, err
}

func (s *Store) find(ctx context.Context, token string) (session Session, ok bool, err error) {
	session, ok, err = s.found.Find(ctx, sha256.Sum256([]byte(token)), s.these)
	session.token = token
	return session, ok && session.ExpiresAt.After(s.Now()), err
}

// these returns sessions by the hashes of their tokens, also those that have ended.
func (s *Store) these(ctx context.Context, hashes [][sha256.Size]byte) (map[[sha256.Size]byte]Session, error) {
	list := make([][]byte, len(hashes))
	for i := range hashes {
		list[i] = hashes[i][:]
	}
	// "offset 0" keeps each a look-up by key: a plan for any list would read the table.
	rows, _ := s.DB.Query(ctx, `
		select r.*, m.* from unnest((select $1::bytea[])) as k (hash)
		cross join lateral (`+selectSession+`where s.token_hash = k.hash offset 0) r
		left join lateral (
			select m.member_id, w.slug, m.role, m.approve_loops from members m join workspaces w on w.workspace_id = m.workspace_id
			where m.user_id = r.user_id and m.workspace_id = r.active_workspace_id offset 0) m on true`, list)
	found := make(map[[sha256.Size]byte]Session, len(list))
	sessions, err := pgx.CollectRows(rows, scanWithMember)
	if err != nil {
		return nil, fmt.Errorf("find sessions: %w", err)
	}
	for _, session := range sessions {
		found[[sha256.Size]byte(session.hash)] = session
	}
	return found, nil
}

const selectSession = `
	select s.token_hash, s.session_id, s.user_id, u.workspace_id, u.name, u.email, u.emails, u.avatar_url, u.registered_at,
		s.active_workspace_id, s.created_at, s.updated_at, s.expires_at, s.ip, s.user_agent
	from sessions s join users u on u.user_id = s.user_id `

func scan(row pgx.CollectableRow) (s Session, err error) {
	err = row.Scan(s.columns()...)
	return s, err
}

func scanWithMember(row pgx.CollectableRow) (s Session, err error) {
	var id *events.ID
	var slug *string
	var role *events.Role
	var approveLoops *bool
	err = row.Scan(append(s.columns(), &id, &slug, &role, &approveLoops)...)
	if err == nil && id != nil {
		s.Member = &Member{*id, *slug, *role, approveLoops}
	}
	return s, err
}

// columns are where those of selectSession go.
func (s *Session) columns() []any {
	return []any{
		&s.hash, &s.ID, &s.User, &s.Home, &s.Name, &s.Email, &s.Emails, &s.AvatarURL, &s.RegisteredAt,
		&s.Active, &s.CreatedAt, &s.UpdatedAt, &s.ExpiresAt, &s.IP, &s.UserAgent,
	}
}
