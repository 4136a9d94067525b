package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/events"
)

// A keyChange takes a key for its owner or gives it back.
type keyChange struct {
	workspace events.ID
	events.Claim
	takes bool // or gives back
}

// queueKeys gives keys back and takes others. Everybody goes through the keys
// in one order, against deadlocks over global ones; a key that a commit gives
// back can be taken by that commit or by one that comes after it.
func (t *transaction) queueKeys(b *pgx.Batch) {
	var list []keyChange
	for _, p := range t.batch {
		for _, c := range p.commit.Releases {
			list = append(list, keyChange{p.commit.Workspace, c, false})
		}
		for _, c := range p.commit.Claims {
			list = append(list, keyChange{p.commit.Workspace, c, true})
		}
	}
	slices.SortStableFunc(list, func(a, b keyChange) int { return cmp.Compare(a.Key, b.Key) })
	for _, c := range list {
		if c.takes {
			t.queueClaim(b, c)
		} else if c.Global {
			b.Queue(`delete from global_keys where key = $1 and owner = $2`, c.Key, c.Owner)
		} else {
			b.Queue(`delete from unique_keys where workspace_id = $1 and key = $2 and owner = $3`, c.workspace, c.Key, c.Owner)
		}
	}
}

func (t *transaction) queueClaim(b *pgx.Batch, c keyChange) {
	sql := `insert into unique_keys (workspace_id, key, owner) values ($1, $2, $3) on conflict do nothing`
	if c.Global {
		sql = `insert into global_keys (workspace_id, key, owner) values ($1, $2, $3) on conflict do nothing`
	}
	b.Queue(sql, c.workspace, c.Key, c.Owner).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 && t.taken == nil {
			t.taken = &events.Taken{Key: c.Key}
		}
		return nil
	})
}

// A command is remembered for so long, and then until a few others of its
// workspace have been carried out. Each forgets more than one, so what is
// remembered is bounded by what the workspace did in that time.
const (
	remembered   = 30 * 24 * time.Hour
	forgetAtOnce = 10
)

// forgetSQL looks at the oldest commands alone, by bounds of the index that the
// planner knows to be such whenever the plan was made. Those of one moment go
// together.
const forgetSQL = `
	with oldest as materialized (
		select at from commands
		where workspace_id = $1 and at < (select last_at - $2::interval from logs where workspace_id = $1)
		order by at limit $3)
	delete from commands where workspace_id = $1 and at between (select min(at) from oldest) and (select max(at) from oldest)`

// queueCommands marks the commands of the batch as carried out.
func (t *transaction) queueCommands(b *pgx.Batch) {
	behind := map[events.ID]int{} // events of the batch that follow in a log
	for _, p := range slices.Backward(t.batch) {
		c := p.commit
		if c.Command.Key != "" {
			b.Queue(forgetSQL, c.Workspace, remembered, forgetAtOnce)
			b.Queue(`
				insert into commands (workspace_id, actor, key, request_hash, answer, seq, at)
				select $1, $2, $3, $4, $5, head - $6::bigint, last_at from logs where workspace_id = $1
				on conflict do nothing`,
				c.Workspace, c.Envelope.Actor.ID, c.Command.Key, c.Command.Hash, c.Command.Answer, behind[c.Workspace],
			).Exec(func(tag pgconn.CommandTag) error {
				t.repeated += 1 - int(tag.RowsAffected())
				return nil
			})
		}
		behind[c.Workspace] += p.size()
	}
}
