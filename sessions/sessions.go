// Package sessions stores browser sessions, when people and service accounts were last
// seen, and daily counts of limited actions. None of that is history, so it is not in the
// log.
package sessions

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/lookup"
)

// FreshFor is for how long after its caller was looked up a request may wait, for its body or its turn,
// until the caller has to be looked up again.
const FreshFor = 20 * time.Millisecond

const (
	lifetime    = 7 * 24 * time.Hour
	extendAfter = 24 * time.Hour // a session in use gets its full lifetime again after that time
	tokenBytes  = 24
)

// A Store stores sessions in PostgreSQL, with the SHA-256 of each token and never the
// token. Cookies carry the token and its HMAC under Secret; rows have one too. A row with a wrong
// one is no session: at a look-up by its token it is reported to Log.
type Store struct {
	DB     *pgxpool.Pool
	Secret []byte
	Secure bool // the site is served over https
	Now    func() time.Time
	Log    *slog.Logger

	found lookup.Group[[sha256.Size]byte, Session]
}

// A Session is one browser in which a person is signed in.
type Session struct {
	ID           events.ID // may be shown, unlike the token
	User         events.ID
	Home         events.ID // the user's personal workspace
	Name         string
	Email        string   // the primary address
	Emails       []string // all verified addresses
	AvatarURL    string
	RegisteredAt time.Time
	Active       *events.ID // the workspace of requests that name none
	CreatedAt    time.Time
	UpdatedAt    time.Time
	ExpiresAt    time.Time
	IP           string
	UserAgent    string
	Member       *Membership // in the active workspace; nil if there is none, or if it was not loaded

	token string
	hash  []byte // of token
	mac   []byte // see [Store.mac]
}

// A Membership is the membership of a session's user in its active workspace. It is loaded with the
// session, because most requests need both.
type Membership struct {
	ID           events.ID
	Slug         string // of the workspace
	Role         events.Role
	ApproveLoops *bool // nil: the role decides
}

// Has reports whether the person has verified the address.
func (s Session) Has(address string) bool { return slices.Contains(s.Emails, address) }

// maxSessions is how many sessions a person can have at once.
const maxSessions = 100

// Start signs a person in and returns the new session, with active as its workspace, or none if
// they are no longer a member of it. It deletes the person's expired sessions, and the oldest ones if there are too many.
func (s *Store) Start(ctx context.Context, user, active events.ID, ip, userAgent string) (Session, error) {
	raw := make([]byte, tokenBytes)
	rand.Read(raw)
	token := base64.RawURLEncoding.EncodeToString(raw)
	now, hash := s.Now(), digest(token)
	_, err := s.DB.Exec(ctx, `
		with ended as (
			delete from sessions where user_id = $3 and (expires_at <= $5 or session_id in (
				select session_id from sessions where user_id = $3 and expires_at > $5 order by created_at desc, session_id desc offset $9))),
			m as (select workspace_id from members where workspace_id = $4 and user_id = $3 for key share)
		insert into sessions (token_hash, session_id, user_id, active_workspace_id, created_at, updated_at, expires_at, ip, user_agent, mac)
		values ($1, $2, $3, (select workspace_id from m), $5, $5, $6, $7, $8, $10)`,
		hash, events.NewID(now), user, active, now, now.Add(lifetime), ip, userAgent, maxSessions-1, s.mac(hash, user, now))
	if err != nil {
		return Session{}, fmt.Errorf("start session of %s: %w", user, err)
	}
	session, ok, err := s.find(ctx, token)
	if err == nil && !ok {
		err = fmt.Errorf("start session of %s: no such person", user)
	}
	return session, err
}

// Find returns the session of a cookie's value. ok is false if there is none, it has ended,
// or the value is not signed with Secret. renewed means that the session was extended, so
// that the cookie has to be set again.
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
	extended, err := s.DB.Exec(ctx, `
		update sessions set updated_at = $2, expires_at = $3 where token_hash = $1`, digest(token), now, session.ExpiresAt)
	if err != nil {
		return Session{}, false, false, fmt.Errorf("extend session: %w", err)
	}
	ended := extended.RowsAffected() == 0 // in the meantime
	return session, !ended, !ended, nil
}

// maxCookies bounds the cookies of one name that are tried.
const maxCookies = 16

// FindIn returns the session of a request's cookies like Find. A browser sends several of one name if
// another application has set one for a parent domain, and in any order.
func (s *Store) FindIn(r *http.Request) (session Session, renewed, ok bool, err error) {
	cookies := r.CookiesNamed(s.CookieName())
	for _, cookie := range cookies[:min(len(cookies), maxCookies)] {
		session, renewed, ok, err = s.Find(r.Context(), cookie.Value)
		if ok || err != nil {
			break
		}
	}
	return session, renewed, ok, err
}

// FindAgain returns a session that was found before as it is now, and does not extend it.
func (s *Store) FindAgain(ctx context.Context, before Session) (session Session, ok bool, err error) {
	return s.find(ctx, before.token)
}

func (s *Store) find(ctx context.Context, token string) (session Session, ok bool, err error) {
	session, ok, err = s.found.Find(ctx, sha256.Sum256([]byte(token)), s.byHashes)
	session.token = token
	return session, ok && session.ExpiresAt.After(s.Now()), err
}

// byHashes returns sessions by the hashes of their tokens, including expired ones.
func (s *Store) byHashes(ctx context.Context, hashes [][sha256.Size]byte) (map[[sha256.Size]byte]Session, error) {
	list := make([][]byte, len(hashes))
	for i := range hashes {
		list[i] = hashes[i][:]
	}
	// "offset 0" makes each a lookup by key: a plan for any list would read the table.
	rows, _ := s.DB.Query(ctx, `
		select r.*, m.* from unnest((select $1::bytea[])) as k (hash)
		cross join lateral (`+selectSession+`where s.token_hash = k.hash offset 0) r
		left join lateral (
			select m.member_id, w.slug, m.role, m.approve_loops from members m join workspaces w on w.workspace_id = m.workspace_id
			where m.user_id = r.user_id and m.workspace_id = r.active_workspace_id offset 0) m on true`, list)
	stored, err := pgx.CollectRows(rows, scanWithMember)
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	found := make(map[[sha256.Size]byte]Session, len(stored))
	for _, session := range stored {
		if !s.authentic(&session) {
			s.Log.ErrorContext(ctx, "session was not written by this service: ignored", "session", session.ID, "user", session.User)
			continue
		}
		found[[sha256.Size]byte(session.hash)] = session
	}
	return found, nil
}

const selectSession = `
	select s.token_hash, s.session_id, s.user_id, u.workspace_id, u.name, u.email, u.emails, u.avatar_url, u.registered_at,
		s.active_workspace_id, s.created_at, s.updated_at, s.expires_at, s.ip, s.user_agent, s.mac
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
		s.Member = &Membership{*id, *slug, *role, approveLoops}
	}
	return s, err
}

// columns returns the destinations of the columns of selectSession.
func (s *Session) columns() []any {
	return []any{
		&s.hash, &s.ID, &s.User, &s.Home, &s.Name, &s.Email, &s.Emails, &s.AvatarURL, &s.RegisteredAt,
		&s.Active, &s.CreatedAt, &s.UpdatedAt, &s.ExpiresAt, &s.IP, &s.UserAgent, &s.mac,
	}
}
