// Package wire is the protocol svc-farm.v1 between a runner and the service: the
// messages, their forms, their limits, and the codes with which a connection is closed.
// Both sides import it; it knows neither.
//
// A connection is a WebSocket. A text frame is one [Envelope] in JSON; a binary
// frame is one [Chunk] of a job's log. The runner speaks first, with [Hello], and is
// answered by [Welcome]. From then on:
//
//	runner                          service
//	Hello                     ──►
//	                          ◄──   Welcome, then an Assign for each job that it holds and the runner does not know
//	Heartbeat, each 10 s      ──►
//	                          ◄──   HeartbeatAck, with a verdict on each job that the runner may not go on with
//	                          ◄──   Assign
//	Accept or Decline         ──►
//	Event or Chunk, numbered  ──►
//	                          ◄──   Ack, when the database has them
//	                          ◄──   Cancel, Stop, Drain, Closing
//	Goodbye                   ──►
//
// # Numbers
//
// What a runner says of a job is numbered from 1 for each epoch of the job, events and
// chunks together. The service takes in the next number alone: one that it has is
// acknowledged and nothing else, and one after a gap is answered by an [Error] with the
// code [CodeGap] and the number that it expects. An [Ack] says up to which number all is
// stored; what a runner has not been acknowledged it keeps, and sends again.
//
// # Epochs
//
// Each time a job is given to a runner its epoch grows by one. Whatever carries an older
// epoch, or comes from another runner than the one that has the job, changes nothing and
// is answered by [Stop].
package wire
