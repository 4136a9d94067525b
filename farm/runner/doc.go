// Package runner is the agent on a build machine. It connects to the farm, takes jobs, runs them
// and reports on them.
//
// # Processes
//
// The supervisor ([Run]) holds the connection and sends heartbeats. Each job runs in a process of
// its own ([svc/farm/runner/executor], the same program with another argument), so that a job that
// uses up all memory, or crashes its process, cannot stop the heartbeats of other jobs. It reads
// what to run, including secrets, from standard input, and reports on standard output; neither is
// ever written to disk. When its input ends, the supervisor has died, and the job's process kills
// its steps and exits.
//
// # Reports
//
// The job's process masks secrets in the output ([svc/farm/runner/mask]) before anything else sees
// it. The supervisor numbers events and chunks of output together, keeps them in a spool on disk
// ([svc/farm/runner/spool]) and sends them as far as the window of unacknowledged messages allows.
// The service never slows a build down: what cannot be sent stays in the spool. After a reconnect
// or a gap, sending resumes after the last acknowledged message.
//
// # Leases
//
// A job begins when the service has acknowledged that the runner accepts it. Until then the service
// may give it to another runner.
//
// A heartbeat lists the held jobs. Once it is acknowledged, each of them may run until the lease
// time, less a margin, has passed since the heartbeat was sent, by a clock that also runs while the
// machine sleeps. Then the job is killed, connected or not, because the service may give it to
// another machine soon after. The job's process is told each extension and does so by itself, since
// the supervisor may stand still.
package runner

import (
	"errors"
	"time"

	"svc/farm/release"
	"svc/farm/wire"
)

// Version of the runner, as it tells the service.
const Version = release.Version

// Exit statuses of the program.
const (
	// ExitRefused says that the service does not accept this runner, so a restart is useless.
	// The systemd unit has RestartPreventExitStatus=78.
	ExitRefused = 78
)

// ErrRefused is wrapped by errors after which the program exits with [ExitRefused].
var ErrRefused = errors.New("the farm does not take this runner")

// ErrRetired says that the runner has done the jobs that it was enrolled for. The program exits with 0.
var ErrRetired = errors.New("this runner has done the jobs that it was enrolled for")

// The runner's own limits.
const (
	diskGuard   = 2 << 30 // free bytes below which no job is taken
	syncEvery   = time.Second
	killTimeout = 20 * time.Second  // for a job's process to obey a kill before it is killed itself
	freshFor    = wire.StalledAfter // how recently a heartbeat must be acknowledged to start a job
)
