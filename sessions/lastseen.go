package sessions

import (
	"context"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
)

const (
	coalesce   = time.Minute     // a caller's last use is written at most this often
	waiting    = 1024            // uses that may wait to be written; further ones are left out
	remembered = 50_000          // callers whose last written use a process remembers
	writeLimit = 5 * time.Second // for one use
)

// LastSeen writes down when members and service accounts last used the
// service, behind the requests' backs and at most once a minute each.
type LastSeen struct {
	db    *pgxpool.Pool
	log   *slog.Logger
	uses  chan use
	noted *lru.Cache[[2]events.ID, time.Time]
}

type use struct {
	sql            string
	workspace, who events.ID
	at             time.Time
}

// NewLastSeen returns a LastSeen that writes nothing until it runs.
func NewLastSeen(db *pgxpool.Pool, log *slog.Logger) *LastSeen {
	noted, err := lru.New[[2]events.ID, time.Time](remembered)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &LastSeen{db: db, log: log, uses: make(chan use, waiting), noted: noted}
}

// Member notes that a member was here. It does not wait.
func (l *LastSeen) Member(workspace, user events.ID, at time.Time) {
	l.note(use{`
		insert into member_activity as a (workspace_id, user_id, last_active_at) values ($1, $2, $3)
		on conflict (workspace_id, user_id) do update set last_active_at = excluded.last_active_at
		where a.last_active_at < excluded.last_active_at`, workspace, user, at})
}

// ServiceAccount notes that an account's token was used. It does not wait.
func (l *LastSeen) ServiceAccount(workspace, account events.ID, at time.Time) {
	l.note(use{`
		insert into service_account_usage as a (workspace_id, account_id, last_used_at) values ($1, $2, $3)
		on conflict (workspace_id, account_id) do update set last_used_at = excluded.last_used_at
		where a.last_used_at < excluded.last_used_at`, workspace, account, at})
}

func (l *LastSeen) note(u use) {
	who := [2]events.ID{u.workspace, u.who}
	if last, ok := l.noted.Get(who); ok && u.at.Sub(last) < coalesce {
		return
	}
	select {
	case l.uses <- u:
		l.noted.Add(who, u.at)
	default: // the queue is full; a later request notes it
	}
}

// Run writes uses until ctx ends, and then those that still wait.
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
		l.log.Warn("write down who was last seen", "workspace", u.workspace, "who", u.who, "err", err)
	}
}
