package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc/events"
)

// A keyChange claims a key for its owner or releases it.
type keyChange struct {
	workspace events.ID
	events.Claim
	claims bool // false: it releases the key
}

// queueKeys queues releasing and claiming keys. All transactions go through the keys in the
// same order, which prevents deadlocks over global keys. A key that a commit releases can
// be claimed by that commit or a later one of the batch.
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
		if c.claims {
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
			t.taken = &events.TakenError{Key: c.Key}
		}
		return nil
	})
}

// A command is remembered for that long, and then until a few more commands of its
// workspace have been stored. Each of them deletes more than one, so the number of
// remembered commands is bounded by what the workspace did in that time.
const (
	commandLifetime = 30 * 24 * time.Hour
	forgetBatch     = 10
)

// forgetSQL deletes the oldest expired commands. It compares the indexed column with plain
// bounds, so that the planner uses the index whenever the plan was made. Commands of the
// same moment are deleted together.
const forgetSQL = `
	with oldest as materialized (
		select at from commands
		where workspace_id = $1 and at < (select last_at - $2::interval from logs where workspace_id = $1)
		order by at limit $3)
	delete from commands where workspace_id = $1 and at between (select min(at) from oldest) and (select max(at) from oldest)`

// queueCommands queues recording the batch's commands as carried out.
func (t *transaction) queueCommands(b *pgx.Batch) {
	behind := map[events.ID]int{} // events of the batch that follow in the same log
	for _, p := range slices.Backward(t.batch) {
		c := p.commit
		if c.Command.Key != "" {
			b.Queue(forgetSQL, c.Workspace, commandLifetime, forgetBatch)
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
