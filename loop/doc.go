// Package loop moves runs: from a queued issue to a merged pull request.
//
// A run's stream is all that is known of it. [Next] looks at the fold of the stream and at what
// surrounds the run, and says what comes next: a fact to record, a job for the farm, a step for the
// engine, a question to people, or waiting. It is pure. A [Scheduler] carries that out, in every
// replica of the REST service at once, and asks again.
//
// # What happens once
//
// Everything that a move does can be done twice. Facts are recorded for the version of the stream
// that they were decided by. A job is submitted in the commit that records that the run asked for
// it. Places among active runs and turns to merge are keys, which one run can hold. What a step
// changes at the code host is compared and swapped, or found again by the run's marker. So two
// workers that move the same run do no harm, and a worker that dies in the middle leaves nothing to
// mend: another one decides again.
//
// # When a run is looked at
//
// Table run_steps says when each run is due (table.go). The marker, a follower of all logs that one
// process runs, makes runs due whose streams, jobs or repositories have new events (marker.go), and
// sweeps all active runs now and then, so that the table can be emptied at any time. Workers claim
// due rows of one workspace after the other (worker.go). The watcher polls the code host once for
// each repository, and makes runs due of whose branches or pull requests something has changed
// (package watch). A hint of the code host that something has changed makes any process look at once.
package loop
