// Package dispatch leases jobs to runners and delivers them. It is the service's side of
// the protocol svc-farm.v1, which package wire describes.
//
// The log is the truth. Three tables beside it hold the current state: runner_presence has each
// runner's newest connection and last heartbeat, job_leases has who holds which job until when and
// up to which message its reports are stored, and job_logs has the output. [svc/farm/ingest.Leases] updates the
// leases in the transaction that appends to the log: a job that the log gives to a runner has a
// lease, and a job that the log has taken away has no lease that could be renewed or stored under.
package dispatch
