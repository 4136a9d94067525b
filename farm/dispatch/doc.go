// Package dispatch gives jobs to runners and takes in what becomes of them: the service's
// side of svc-farm.v1, which package wire describes.
//
// What is true is in the log. Beside it are rows of what goes on at the moment:
// runner_presence has the newest connection of each runner and its last heartbeat,
// job_leases who has which job until when and how far its messages have come, job_logs the
// logs. [Leases] keeps the leases in the transaction that appends: a job that the log says
// is with a runner has a lease, and one that the log has taken away has none that could be
// renewed, or under which more could be stored.
package dispatch
