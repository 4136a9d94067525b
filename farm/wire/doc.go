// Package wire defines svc-farm.v1, the protocol between a runner and the service: messages,
// encodings, limits and close codes. Both sides import it, and it imports neither.
//
// A connection is a WebSocket. A text frame is one [Envelope] in JSON, a binary frame is one
// [Chunk] of a job's log. The runner sends [Hello] first, and the service answers with [Welcome].
// After that:
//
// \trunner                          service
// \tHello                     ──►
// \t                          ◄──   Welcome, then an Assign for each leased job that the runner
// does not hold
// \tHeartbeat, every 10 s     ──►
// \t                          ◄──   HeartbeatAck, with a verdict on each job that the runner must
// stop
// \t                          ◄──   Assign
// \tAccept or Decline         ──►
// \tEvent or Chunk, numbered  ──►
// \t                          ◄──   Ack, once the database has them
// \t                          ◄──   Cancel, Stop, Drain, Closing
// \tGoodbye                   ──►
//
// # Numbers
//
// The events and chunks of a job are numbered together, from 1 in each epoch of the job. The
// service accepts only the next number. A message that it has already is acknowledged and otherwise
// ignored. A message after a gap is answered by an [Error] with the code [CodeGap] and the expected
// number. An [Ack] gives the number up to which everything is stored. A runner keeps what is not
// acknowledged, and sends it again after a reconnect.
//
// # Epochs
//
// Each lease of a job increments the job's epoch. A message with an older epoch, or from a runner
// that does not hold the job, changes nothing and is answered by [Stop].
package wire
