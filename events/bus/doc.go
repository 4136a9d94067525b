// Package bus carries every event from the log to the consumers that act upon it.
//
// A [Relay] reads the log of each workspace and publishes its events. Consumers process
// them behind Watermill's router, which retries failures and parks messages that keep
// failing. A message has the id of its event. An event is published at least once, so
// consumers must be idempotent; one that carries out a command uses the message's id as the
// idempotency key. The events of one workspace arrive in order.
//
// Views read the log directly and do not need the bus. Everything else that acts upon
// events uses it, so that retries, parking and distribution over processes are written
// once.
//
// The relay (relay.go) keeps a checkpoint for each log, as a view does. A checkpoint moves
// past the messages that the bus has stored and no others, also where a slow or failing bus
// has stored only a part of a page; so an event may be published twice. One process relays:
// the leader for [FollowerName]. If two believe that they lead, the lock on a workspace's
// checkpoint lets only one of them work on it.
//
// The consumers (consume.go) get four retries for a message. Then it is parked in
// svc_events_parked with the reason, and an error is logged. While something that the
// consumer needs is unavailable, nothing is parked and the message is redelivered until it
// succeeds. Consumers of the same name share the messages, one at a time and in order on
// every kind of bus. A live consumer gets all messages in every process. On PostgreSQL it
// is spared the events that it knows (its process appended them, or nobody there watches
// the log): only their positions are read.
//
// # PostgreSQL
//
// A topic is a row that counts its messages. A publisher locks it until the commit, as
// appends lock the head of a log: positions have no gap and become visible in order,
// however many relays publish at once (TestPositionsBecomeVisibleInOrder). Reading by
// position is therefore safe without transaction ids and snapshots, and a slow handler's
// open transaction blocks nobody. It also lets a reader ask for a range of positions
// instead of the first hundred: a plan for the latter that was made before the first
// analyze sorts all waiting messages.
//
// The relay publishes in the transaction of its checkpoint, and the message of an event is
// only its workspace and number; the rest is read from the log. Its commit waits for the disk, so
// a crash of the server takes back no position that a live consumer has read. A failover to a
// replica without the newest messages, or a restored backup, may: a live consumer notices, by the
// time of the last message that it has read, and reads the messages that are kept again. Messages are deleted a
// minute after every group has passed them, and after a week in any case, with a warning.
// Watermill-sql's own adapters do none of this; this package uses its publisher and
// subscriber.
//
// # NATS
//
// NATS is JetStream. Each group has one message in flight, because a second one could
// overtake a first that has to be redelivered. The server gives a message to another
// process if it was not acknowledged within the time that all tries, their pauses and
// parking can take; each try is cancelled after three seconds. A process that stops
// finishes its message, or gives it back after it has left the group, so that another
// process gets it at once. Only the publisher of Watermill's NATS library is used (nats.go
// says why).
//
// A bus that is unavailable is logged and retried; requests are not affected. Events from
// before the bus was introduced are not published: they have no consumer.
package bus
