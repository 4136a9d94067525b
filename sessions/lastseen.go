package sessions

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/lru"
)

const (
	minWriteInterval = time.Minute     // a caller's last use is written at most that often
	queueSize        = 1024            // uses that may wait to be written; further ones are dropped
	maxRemembered    = 50_000          // callers whose last written use is remembered
	writeLimit       = 5 * time.Second // for one use
)

// LastSeen records when members and service accounts last used the service. It writes in
// the background, at most once a minute for each.
type LastSeen struct {
	db          *pgxpool.Pool
	log         *slog.Logger
	uses        chan use
	lastWritten *lru.Cache[[2]events.ID, time.Time]
}

type use struct {
	sql            string
	workspace, who events.ID
	at             time.Time
}

// NewLastSeen returns a LastSeen that writes nothing until Run is called.
func NewLastSeen(db *pgxpool.Pool, log *slog.Logger) *LastSeen {
	return &LastSeen{db: db, log: log, uses: make(chan use, queueSize), lastWritten: lru.New[[2]events.ID, time.Time](maxRemembered)}
}

// Member records that a member used the service. It does not block.
func (l *LastSeen) Member(workspace, user events.ID, at time.Time) {
	l.record(use{`
		insert into member_activity as a (workspace_id, user_id, last_active_at) values ($1, $2, $3)
		on conflict (workspace_id, user_id) do update set last_active_at = excluded.last_active_at
		where a.last_active_at < excluded.last_active_at`, workspace, user, at})
}

// ServiceAccount records that an account's token was used. It does not block.
func (l *LastSeen) ServiceAccount(workspace, account events.ID, at time.Time) {
	l.record(use{`
		insert into service_account_usage as a (workspace_id, account_id, last_used_at) values ($1, $2, $3)
		on conflict (workspace_id, account_id) do update set last_used_at = excluded.last_used_at
		where a.last_used_at < excluded.last_used_at`, workspace, account, at})
}

func (l *LastSeen) record(u use) {
	who := [2]events.ID{u.workspace, u.who}
	if last, ok := l.lastWritten.Get(who); ok && u.at.Sub(last) < minWriteInterval {
		return
	}
	select {
	case l.uses <- u:
		l.lastWritten.Add(who, u.at)
	default: // the queue is full; a later request records it
	}
}

// Run writes uses until ctx ends, and then those that are still queued.
func (l *LastSeen) Run(ctx context.Context) {
	for {
		select {
		case u := <-l.uses:
			l.write(u)
		case <-ctx.Done():
			for {
				select {
				case u := <-l.uses:
					l.write(u)
				default:
					return
				}
			}
		}
	}
}

func (l *LastSeen) write(u use) {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	if _, err := l.db.Exec(ctx, u.sql, u.workspace, u.who, u.at); err != nil {
		l.log.Warn("store who was last seen", "workspace", u.workspace, "who", u.who, "err", err)
	}
}
