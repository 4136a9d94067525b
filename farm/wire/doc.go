// Package wire defines svc-farm.v1, the protocol between a runner and the service: messages,
// encodings, limits and close codes. Both sides import it, and it imports neither.
//
// A connection is a WebSocket. A text frame is one [Envelope] in JSON, a binary frame is one
// [Chunk] of a job's log. The runner sends [Hello] first, and the service answers with [Welcome].
// After that:
//
//	runner                          service
//	Hello                     ──►
//	                          ◄──   Welcome, then an Assign for each leased job that the runner does not hold
//	Heartbeat, every 10 s     ──►
//	                          ◄──   HeartbeatAck, with a verdict on each job that the runner must stop
//	                          ◄──   Assign
//	Accept or Decline         ──►
//	Event or Chunk, numbered  ──►
//	                          ◄──   Ack, once the database has them
//	                          ◄──   Cancel, Stop, Drain, Closing
//	Goodbye                   ──►
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
