package plans_test

import (
	"slices"
	"strings"
)

// An exception is a statement that may read much, or that is not asked here, and
// why. It is named by a part of it, or by the beginning of its file's path.
type exception struct{ part, file, reason string }

var exceptions = []exception{
	{part: "where l.head > greatest(c.seq, 0)", reason: "finds the logs that have grown, once a second in the process that leads"},
	{part: "count(*) filter (where head > taken)",
		reason: "says how far views have come in all logs, to metrics and operators"},
	{part: "select workspace_id from logs union select workspace_id from proof_checkpoints", reason: "all workspaces, for svc-db verify"},
	{part: "select workspace_id, head from logs", reason: "all workspaces, for svc-db verify -views"},
	{part: "split_part(kind, '.', 1) = any($4) or seq = $5",
		reason: "a stretch of a log at a time, of which a state wants what is about people and accounts"},
	{part: "from parked order by view", reason: "all that are parked, for operators"},

	{part: "where l.head <> c.size",
		reason: "finds the logs that are not signed, for a fiftieth of the time at most, and for svc-db verify"},
	{file: "projections/fold/compare", reason: "compares all rows of a log, which it reads: an operator's, and paced in the service"},
	{part: "select head from logs where workspace_id = $1 and head > $2", reason: "asked where a log seems to end: a look-up by key"},
	{part: "select count(*) from checkpoints where workspace_id = $1 and view = any($2) and seq = $3",
		reason: "asked where a log seems to end: a look-up by key"},
	{file: "projections/rebuild/", reason: "an operator's: reads all of a view, or of a log"},
	{file: "events/store/ranges", reason: "a rebuild's: goes through whole logs for some kinds"},
	{part: "delete from where workspace_id = $1 and = any($2:: [])", reason: "a rebuild's: by keys"},
	{part: "on conflict (workspace_id, view) do update set seq = checkpoints.seq", reason: "parks an event that is damaged: by key"},
	{part: "insert into parked", reason: "parks an event that is damaged: by key"},
	{part: "select k.workspace_id, l.head, l.id",
		reason: "asked every two seconds, by a clock that a test would have to wait for: a look-up by key each"},
	{part: "select seq, at from events where workspace_id = $1 and seq > $2 and seq <= $3 order by seq",
		reason: "goes through what is not signed yet"},
	{file: "proof/replace", reason: "an operator's, once a key is lost: the newest checkpoint of each log, and all of a log"},
	{part: "select exists (select from proof_checkpoints)", reason: "asked before the signing key is created: reads a row"},
	{part: "select pg_notify", reason: "reads no table"},
	{part: "delete from snapshots", reason: "drops one that is none, or all by an operator's word"},
	{part: "delete from verifications", reason: "drops one that is forged: by key"},
	{part: "join deleted_workspaces d on d.workspace_id = m.workspace_id", reason: "looks through the workspaces of a person"},
	{part: "select exists (select from deleted_workspaces where workspace_id = $1)",
		reason: "asked every five seconds, by a clock that a test would have to wait for: a look-up by key"},
	{part: "coalesce((select c.note from proof_checkpoints c", reason: "asked once, when a workspace is purged: look-ups by key"},
	{file: "proof/rotate", reason: "an operator's: rotates the key of all"},
	{part: "select workspace_id, stream, mac from snapshots", reason: "an operator's: rotates the key of all"},
	{part: "update snapshots set mac", reason: "an operator's: rotates the key of all"},
	{part: "order by word, name_key, member_id limit 250) w", reason: "looks at 250 members, which callers are told"},
	{part: "and m.role = $2 order by m.joined_at",
		reason: "goes through an index until it has a page of those who have a role"},
	{part: "limit 1000) a where strpos(name", reason: "looks through 1,000 service accounts, which callers are told"},
	{part: "limit 10000) j where j.workspace_id", reason: "looks through 10,000 jobs, which callers are told"},
	{part: "where not fenced and renewed_at < $1",
		reason: "looks at the leases of all jobs that run, once a second where the clock is " +
			"kept: an index by time would be written by each heartbeat"},
	{part: "from runner_presence where online and seen_at < $2", reason: "looks at all runners that are connected, for the same reason"},
	{part: "limit 10000) before", reason: "counts up to 10,000 jobs before one"},
	{part: "from (select job_id as id from jobs", reason: "walks an index to an offset of up to 100,000"},
	{part: "from (select run_id as id from runs", reason: "walks an index to an offset of up to 100,000"},
}

// acrossWorkspaces are the statements that need not name a workspace, and why. Many take arrays of workspaces:
// one statement in the place of one for each.
var acrossWorkspaces = []exception{
	{part: "with heads as ( insert into logs", reason: "appends commits of several workspaces that arrived together"},
	{part: "1 / (not $4 or count(*) = 0)::int", reason: "checks the streams that those commits read"},
	{part: "as k (workspace_id, key) cross join lateral", reason: "reads the rows of a view that events of several logs change"},
	{part: "delete from member_words where workspace_id = $1 and word_id = $2 or", reason: "deletes rows for the same reason"},

	{part: "from logs l left join checkpoints c", reason: "a follower's: finds the logs that have grown"},
	{part: "from logs l left join (select workspace_id, min(seq) as seq", reason: "a follower's: finds the logs that have grown"},
	{part: "offset 0 for update skip locked) c", reason: "a follower's: checkpoints of several logs"},
	{part: "insert into checkpoints (workspace_id, view, seq) select", reason: "a follower's: checkpoints of several logs"},
	{part: "update checkpoints c set seq = m.seq from unnest", reason: "a follower's: checkpoints of several logs"},
	{part: "and e.seq = k.seq and e.id = k.id offset 0) e", reason: "a follower's: events that it has read of several logs"},
	{part: "as p (log, behind, ord) cross join lateral", reason: "a follower's: reads on in several logs"},
	{part: "select log, last, last = behind + n from unnest", reason: "a follower's: passes over events in several logs"},
	{part: "select k.workspace_id, l.head, l.id", reason: "the heads of all logs that somebody watches"},

	{part: "select e.* from unnest((select $1::uuid[]), (select $2::bigint[])) as p (log, behind)",
		reason: "proves several logs at once, as the next six do"},
	{part: "with ordinality as k (log, stream, version, seq, i)", reason: "checks the places of their events"},
	{part: "select i.workspace_id, h.hash from unnest", reason: "reads the hashes at their ends"},
	{part: "select w, note from unnest", reason: "reads their checkpoints"},
	{part: "insert into proof_hashes", reason: "stores their hashes"},
	{part: "insert into proof_checkpoints", reason: "stores their checkpoints"},
	{part: "delete from proof_checkpoints c using unnest", reason: "deletes their former checkpoints"},
	{part: "where l.head <> c.size", reason: "finds the logs that are not signed"},

	{part: "where t.fingerprint = k.fingerprint", reason: "finds the workspaces of service tokens"},
	{part: "where s.token_hash = k.hash", reason: "finds sessions, each with its person's membership in the workspace that is open"},
	{part: "and m.member_id = k.id", reason: "members that requests of several workspaces ask for at once"},
	{part: "and m.user_id = k.id", reason: "memberships that requests of several workspaces ask for at once"},
	{part: "from checkpoints c where c.workspace_id = k.workspace_id and view in",
		reason: "dashboards that requests of several workspaces ask for at once"},
	{part: "where i.email = any($1)", reason: "invitations of a person to any workspace"},
	{part: "where m.user_id = $1 order by m.joined_at", reason: "the workspaces of a person"},
	{part: "join deleted_workspaces d on d.workspace_id = m.workspace_id", reason: "the deleted workspaces of a person"},
	{part: "from members where user_id = $1 and (name <> $2", reason: "the workspaces of a person that have another name for them"},

	{part: "from unnest($1::uuid[], $2::uuid[]) as k (workspace_id, job_id)",
		reason: "leases of jobs that a process watches or has reports of, in several workspaces"},
	{part: "insert into job_logs", reason: "stores what runners of several workspaces have sent"},
	{part: "update job_leases l set last_seq", reason: "stores up to where that is"},
	{part: "update runner_presence p set seen_at", reason: "heartbeats of runners of several workspaces"},
	{part: "with locked as materialized", reason: "renews the leases that those heartbeats list"},

	{part: "where not fenced and renewed_at < $1", reason: "the sweep's: leases that have run out"},
	{part: "where l.fenced and l.sealed_at is null", reason: "the sweep's: jobs whose lease has run out"},
	{part: "where j.state = 'cancelling' and coalesce(p.seen_at", reason: "the sweep's: cancelled jobs of silent runners"},
	{part: "from jobs where due_at <= $1", reason: "the sweep's: jobs whose time is up"},
	{part: "from runner_presence where online and seen_at < $2", reason: "the sweep's: silent runners"},
	{part: "from runners r where r.jobs_left = 0", reason: "the sweep's: runners that may take no more jobs"},
	{part: "from job_leases where sealed_at < $1", reason: "the sweep's: old logs of jobs"},
	{part: "from job_artifacts where stored_at < $1", reason: "the sweep's: old artifacts"},
	{part: "from job_inputs where created_at < $1", reason: "the sweep's: old inputs of jobs"},
	{part: "from run_steps where claimed_until is null and due_at <= now() group by", reason: "the workspaces that have due runs"},
	{part: "due_at = now() where claimed_until < now()", reason: "claims of workers that have died"},
	{part: "from runs r where not tidied", reason: "the sweep's: active runs that nobody looks at"},
	{part: "where active and branch <> ''", reason: "the branches of all active runs, for one look at each repository"},
	{file: "integrity/checker", reason: "goes from one workspace to the next"},

	{part: "count(*) filter (where head > taken)", reason: "how far views have come, for metrics and operators"},
	{part: "from parked order by view", reason: "all that are parked, for operators"},
	{part: "select workspace_id from logs union select workspace_id from proof_checkpoints", reason: "all workspaces, for svc-db verify"},
	{part: "select workspace_id, head from logs", reason: "all workspaces, for svc-db verify -views"},
	{part: "select exists (select from proof_checkpoints)", reason: "whether any log is signed"},
	{part: "select distinct workspace_id from", reason: "a comparison's: looks in all of a view for workspaces without a log"},
	{file: "projections/rebuild/", reason: "an operator's: all of a view, or a log in a table whose name is not in the text"},
	{part: "delete from where workspace_id = $1 and = any($2:: [])", reason: "a rebuild's, in a table whose name is not in the text"},
	{file: "events/store/ranges", reason: "a rebuild's: pages of several logs"},
	{part: "select distinct on (workspace_id) workspace_id, note from proof_checkpoints",
		reason: "an operator's, once a key is lost: the newest checkpoint of each log"},
	{part: "delete from snapshots", reason: "an operator's: all snapshots"},
	{part: "select workspace_id, stream, mac from snapshots", reason: "an operator's: rotates the key of all"},
	{file: "proof/rotate", reason: "an operator's: rotates the key of all stored reports, or drops them"},
	{file: "events/bus/", reason: "put together from parts; messages on the bus are of all workspaces"},
}

func (e exception) of(sql, file string) bool {
	return e.part != "" && strings.Contains(sql, e.part) || e.file != "" && strings.HasPrefix(file, e.file)
}

// excepted reports whether a statement is none of this test's.
func excepted(sql, file string) bool {
	return slices.ContainsFunc(exceptions, func(e exception) bool { return e.of(sql, file) })
}
