// Package store keeps the log in PostgreSQL.
//
// The log of a workspace is a row of logs, its head, and the events it counts.
// Whoever appends holds the head row until the commit, so numbers become
// visible in order and a reader that has seen n knows that nothing below n is
// still to come: it can check that the next one it reads is n + 1.
//
// # Numbers
//
// A workspace is a log. Its events are numbered 1, 2, 3 … without a gap, in the order
// in which they were committed (primary key (workspace_id, seq)). Nothing in the
// product needs an order across workspaces, so none is promised; that leaves each
// workspace free to be exported, proved, rebuilt or moved alone. What people do to
// their own account is in the log of their personal workspace.
//
// # Append
//
// Whoever appends updates the head row of the log, and so holds it until the commit.
// Numbers therefore become visible in order, and a reader that has seen n knows that
// nothing below n is still on its way. It does not have to trust that: store.After
// reports an error if the next event is not n + 1.
// TestTailingReadersMissNothingAndSeeNothingTwice does this with 16 writers.
//
// Commits that wait at the same moment share a transaction. Each process has two
// appenders. Up to 64 commits at a time share one of them, which makes the most of a
// transaction; when more wait they are spread over both, a workspace's to the same
// one, and one executes while the other waits for the disk. A transaction is one round trip: it
// numbers and inserts the events, checks versions and commits. A check that fails
// divides by zero, which ends the round trip before its commit. If inline views change
// or a key is asked for it is two: the first also takes and gives back keys and reads
// the rows of the views, the second writes those rows and commits. The server gives up
// before the process does, each statement having what is left of one time for all of
// them, so that nobody is told "perhaps" because somebody else held a row, but busy;
// then the commits of other logs are tried by themselves. If one commit of a batch
// cannot be stored nothing of the batch is, and each half is tried again by itself,
// until the one at fault stands alone with its error. That is simpler than sorting out
// winners inside SQL, and costs only when two processes collide.
//
// # Optimistic concurrency
//
// Also called compare-and-swap: unique (workspace_id, stream, version)
// refuses a version that is taken, and the append checks that the version before it
// exists, so a fold that is ahead of a restored database is refused too. A table of
// stream versions beside the events would say the same and be a second write on every
// append; there is none.
//
// Reads are part of a decision. A stream that a command looked at but did not write to
// (the workspace, when somebody rotates a token) must not have moved either when the
// commit is stored. So a right that was revoked a moment before is not used a moment
// later, on whichever replica.
//
// # Time
//
// Time in a log never runs backwards: an event's at is the later of the process's
// clock and the event before. "As of Tuesday noon" then names one place in the log,
// whatever the replicas' clocks do.
//
// # Keys
//
// The table unique_keys holds what may exist once in a workspace (a service account's
// name, the active run of an issue), global_keys what may exist once at all (an e-mail
// address, a slug); both are taken and given back in the append's transaction. Which
// event takes or frees a key is told by two folds (projections/keys.go), so the tables
// can be compared with the log and made anew like views. commands remembers requests
// that carried an Idempotency-Key, with an answer that never contains a secret, for 30
// days; each request with a key forgets a few that are older, so no job has to come
// by.
//
// # Answers
//
// What an append can answer: conflict (decide again), taken, key reused, or outcome
// unknown if the connection broke before the answer. The last is said as it is (503
// outcome_unknown) and never retried behind the caller's back.
//
// Exact bytes: data and meta are json, not jsonb, which would re-order and re-space
// them. Event forms are stored for ever; events/testdata proves that each can still be
// read and is written the same. A kind that needs another form gets the next schema:
// the old form becomes a type with a method Now (runCommitsPushed1 is the worked
// example), stored bytes stay as they are, and nobody but events knows that there was
// one.
//
// workspace_id leads every key of the log and of what belongs to a workspace. What is
// not of one (global keys, people, sessions, accounts) is known by a key of its own.
// There are no triggers, sequences, advisory locks or NOTIFY in the write path, and
// only SQLSTATEs are matched. That keeps poolers, managed PostgreSQL and sharding by
// workspace (Citus) open; TestEverythingLeadsWithItsDistributionColumn asks the
// catalogue whether it is so.
package store
