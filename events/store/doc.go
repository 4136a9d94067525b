// Package store keeps the log in PostgreSQL.
//
// The log of a workspace is one row of the table logs, its head, and the events that the
// head counts. An append locks the head row until its commit, so sequence numbers become
// visible in order: a reader that has seen n knows that nothing below n is still to come.
// It need not trust that: [Page.Read] reports an error if the next event is not n + 1.
// TestTailingReadersMissNothingAndSeeNothingTwice checks this with 16 writers.
//
// # Numbers
//
// Each workspace has a log of its own. Its events are numbered 1, 2, 3 … without a gap, in
// the order in which they were committed (primary key (workspace_id, seq)). There is no
// order across workspaces, because nothing in the product needs one; each workspace can
// therefore be exported, proved, rebuilt or moved alone. What people do to their own
// account is in the log of their personal workspace.
//
// # Append
//
// Commits that wait at the same moment share a transaction. Each process has two appenders.
// Up to 64 commits at a time share the first one, which makes transactions as large as
// possible. When more wait, they are spread over both by workspace, and one appender
// executes while the other waits for the disk.
//
// A transaction is one round trip: it numbers and inserts the events, checks versions and
// commits. A check that fails divides by zero, which aborts the round trip before its
// commit. If inline views change or unique keys are involved, the transaction is two round
// trips: the first also claims and releases keys and reads the rows of the views, the
// second writes those rows and commits.
//
// The statements of a transaction share one time limit, which is shorter than the client's
// deadline. So a commit that is blocked by a row lock fails with "busy" and not with
// "outcome unknown"; the commits of other logs are then tried separately.
//
// If one commit of a batch cannot be stored, nothing of the batch is. Each half is retried
// on its own, until the commit at fault stands alone and gets its error. That is simpler
// than sorting out winners inside SQL, and costs something only when two processes collide.
//
// # Optimistic concurrency
//
// An append is a compare-and-swap on the versions of streams: unique (workspace_id, stream,
// version) refuses a version that is taken, and the append checks that the version before
// it exists, so a fold that is ahead of a restored database is refused too. There is no
// table of stream versions: it would say the same and cost a second write on every append.
//
// Reads are part of a decision. A stream that a command read but did not write to (the
// workspace, when somebody rotates a token) must not have changed either when the commit is
// stored. So a right that has just been revoked cannot be used on any replica.
//
// # Time
//
// Time in a log never runs backwards: the time of an event is the later of the process's
// clock and the time of the event before. "As of Tuesday noon" then names one position in
// the log, whatever the replicas' clocks say.
//
// # Authenticity
//
// An append adds a MAC to each event, under a key that the database does not have. Load checks it,
// so that nothing is decided from events that somebody wrote to the table (authentic.go). That costs
// a microsecond of the ten that it takes to load an event.
//
// # Keys
//
// The table unique_keys holds what may exist once in a workspace (a service account's name,
// the active run of an issue), global_keys what may exist only once in total (an e-mail
// address, a slug). Both are claimed and released in the append's transaction. Two folds
// (projections/keys.go) tell which events claim or release a key, so the tables can be
// compared with the log and rebuilt like views.
//
// The table commands remembers requests that carried an Idempotency-Key for 30 days, with
// an answer that never contains a secret. Each request with a key also deletes a few
// expired ones, so no cleanup job is needed.
//
// # Answers
//
// An append can report a conflict (decide again), a key that is taken, an idempotency key
// that was reused, or an unknown outcome if the connection broke before the answer. An
// unknown outcome is passed on to the caller (503 outcome_unknown) and never retried on
// their behalf.
//
// # Stored forms
//
// Data and meta are json, not jsonb, which would re-order and re-space them: their bytes
// have to stay exact. The forms of events are stored for ever; events/testdata proves that
// each can still be read and is written the same. A kind that needs another form gets the
// next schema number: the old form becomes a type with a method Now (runCommitsPushed1 is
// an example), stored bytes stay as they are, and only package events knows the old form.
//
// # Portability
//
// workspace_id leads every key of the log and of what belongs to a workspace. What belongs
// to none (global keys, people, sessions, accounts) has a key of its own. The write path
// has no triggers, sequences, advisory locks or NOTIFY, and errors are matched by SQLSTATE
// alone. That permits poolers and managed PostgreSQL. The keys also permit sharding by
// workspace (Citus), for which TestEverythingLeadsWithItsDistributionColumn checks the
// catalogue; statements about several workspaces at once do not permit it yet.
package store
