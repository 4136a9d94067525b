// Package runner is the agent on a build machine: it connects to the farm, takes jobs, runs
// them and says what became of them.
//
// # Processes
//
// The supervisor ([Run]) holds the connection and sends heartbeats. Each job is run by a
// process of its own ([Execute], the same program with another argument), so that a job that
// takes all memory, or breaks what runs it, keeps no other job from its heartbeats. The
// job's process is told what to run through its standard input, secrets among it, and says
// what happens through its standard output; neither is ever on a disk. When the input ends
// the supervisor has gone, and the job's process kills its steps and ends.
//
// # What is said of a job
//
// Output is masked in the job's process ([svc/farm/runner/mask]) before anybody else has it.
// The supervisor numbers events and chunks of output together, keeps them in a spool
// ([svc/farm/runner/spool]) and sends them as far as the window of unacknowledged ones
// allows. A build is never slowed down by the service: what cannot be sent is on the disk.
// After a new connection, or a gap, sending begins again behind what is acknowledged.
//
// # One machine at a time
//
// A heartbeat lists the jobs that are held. When it is acknowledged each of them may run on
// until the lease's time, less a margin, has passed since that heartbeat was sent, by a clock
// that goes on while the machine sleeps. Then it is killed, connected or not: the service
// gives it to another machine only later.
package runner

import (
	"errors"
	"time"

	"svc/farm/release"
	"svc/farm/wire"
)

// Version of the runner, as it tells the service.
const Version = release.Version

// Statuses with which the program ends.
const (
	// ExitRefused says that the service does not want this runner: starting it again is of no
	// use. Systemd is told so by RestartPreventExitStatus=78.
	ExitRefused = 78
)

// ErrRefused is wrapped by the errors that end the program with [ExitRefused].
var ErrRefused = errors.New("the farm does not take this runner")

// A key names a job in one of its epochs, as its folders are named too.
type key struct {
	job   string
	epoch int
}

// Limits that are the runner's own.
const (
	diskGuard     = 2 << 30 // bytes that are free, or no job is taken
	syncEvery     = time.Second
	fenceEvery    = 250 * time.Millisecond
	childPatience = 20 * time.Second // from the order to kill until the job's process is killed itself
	freshLink     = wire.StalledAfter
)

// started is when this process did.
var started = time.Now()
