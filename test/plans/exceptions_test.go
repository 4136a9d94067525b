package plans_test

import (
	"slices"
	"strings"
)

// An exception is a statement that may read much, or that is not asked here, and
// why. It is named by a part of it, or by the beginning of its file's path.
type exception struct{ part, file, reason string }

var exceptions = []exception{
	{part: "where l.head > coalesce(c.seq, 0)", reason: "finds the logs that have grown, once a second in the process that leads"},
	{part: "count(*) filter (where l.head > coalesce(c.seq, 0))",
		reason: "says how far views have come in all logs, to metrics and operators"},
	{part: "select workspace_id from logs union select workspace_id from proof_checkpoints", reason: "all workspaces, for svc-db verify"},
	{part: "split_part(kind, '.', 1) = any($4) or seq = $5",
		reason: "a stretch of a log at a time, of which a state wants what is about people and accounts"},
	{part: "from parked order by view", reason: "all that are parked, for operators"},

	{part: "where l.head <> c.size",
		reason: "finds the logs that are not signed for, for a fiftieth of the time at most, and for svc-db verify"},
	{file: "projections/fold/compare", reason: "compares all rows of a log, which it reads: an operator's, and paced in the service"},
	{part: "select head from logs where workspace_id = $1 and head > $2", reason: "asked where a log seems to end: a look-up by key"},
	{file: "projections/fold/rebuild", reason: "an operator's: reads all of a view, or of a log"},
	{file: "events/store/ranges", reason: "a rebuild's: goes through whole logs for some kinds"},
	{part: "delete from where workspace_id = $1 and = any($2:: [])", reason: "a rebuild's: by keys"},
	{part: "on conflict (workspace_id, view) do update set seq = checkpoints.seq", reason: "parks an event that is damaged: by key"},
	{part: "values ($1, $2, $3) on conflict (workspace_id, view) do update set seq = excluded.seq",
		reason: "parks an event that is damaged: by key"},
	{part: "insert into parked", reason: "parks an event that is damaged: by key"},
	{part: "select k.workspace_id, l.head from unnest",
		reason: "asked every two seconds, by a clock that a test would have to wait for: a look-up by key each"},
	{part: "select seq, at from events where workspace_id = $1 and seq > $2 and seq <= $3 order by seq",
		reason: "goes through what is not signed for yet"},
	{file: "proof/replace", reason: "an operator's, once a key is lost: the newest checkpoint of each log, and all of a log"},
	{part: "select pg_notify", reason: "reads no table"},
	{part: "delete from snapshots", reason: "drops one that is none, or all by an operator's word"},
	{part: "delete from verifications", reason: "drops one that is forged: by key"},
	{part: "select workspace_id, stream, mac from snapshots", reason: "an operator's: rotates the key of all"},
	{part: "update snapshots set mac", reason: "an operator's: rotates the key of all"},
	{part: "order by word, name_key, member_id limit 250) w", reason: "looks at 250 members, which callers are told"},
	{part: "limit 1000) m cross join lateral (select from members o", reason: "looks through 1,000 members"},
	{part: "and m.role in ('', 'Maintainer') order by m.joined_at",
		reason: "goes through an index until it has a page of those who have a role"},
	{part: "limit 10000) r where issue_number::text", reason: "looks through 10,000 runs, which callers are told"},
	{part: "limit 10000) ) r where issue_number::text", reason: "looks through 10,000 runs of either list, which callers are told"},
	{part: "limit 1000) r where strpos(lower(name)", reason: "looks through 1,000 runners, which callers are told"},
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

func (e exception) of(sql, file string) bool {
	return e.part != "" && strings.Contains(sql, e.part) || e.file != "" && strings.HasPrefix(file, e.file)
}

// excepted reports whether a statement is none of this test's.
func excepted(sql, file string) bool {
	return slices.ContainsFunc(exceptions, func(e exception) bool { return e.of(sql, file) })
}
