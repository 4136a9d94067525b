// Package bus carries every event from the log to whoever acts upon it.
//
// A [Relay] reads on in the log of each workspace and publishes what it finds;
// consumers take it in behind Watermill's router, which tries again what went
// wrong and parks what keeps going wrong. The message's id is the event's.
// An event is published at least once, so a consumer may meet it again: it must
// come to the same. One that carries out a command gives the message's id as
// the command's idempotency key. The events of one workspace come in order.
//
// Views read the log and need no bus. What acts upon an event (live updates now; the engine,
// runners and whatever outside world later) takes it from one, so that trying again, parking
// and spreading over processes are written once. relay.go reads on in each log, from a
// checkpoint as a view does, and publishes every event under its id; consume.go is the
// other side, behind Watermill's router: four more tries, then the message is parked
// in svc_events_parked with the reason, and a line in the log says so; while something
// that the consumer needs is away, nothing is parked and the message comes again until
// it is back. Consumers of one name share the messages, one at a time and in order on
// every kind of bus; a live consumer has all of them in every process, but for those
// of events that it knows (its process appended them, or nobody there watches the log):
// of these PostgreSQL is asked for the positions alone. A checkpoint moves past the
// messages that are kept and no others, also where a slow or failing bus has taken only
// a part of a page; so an event may come twice; a consumer that carries out a command
// gives the event's id as idempotency key. One process relays, by a lease as for the
// views; where two believe that it is theirs, the one that finds the other at a
// workspace's checkpoint leaves that workspace to it.
//
// # PostgreSQL
//
// A topic is a row that counts its messages. Whoever publishes holds it until the
// commit, as appends hold the head of a log: positions have no gap and become visible
// in order, however many relays publish at once (TestPositionsBecomeVisibleInOrder).
// That is what makes reading by plain position safe, without transaction ids and
// snapshots, so a slow handler's open transaction holds nobody back. It also lets a
// reader ask for a range of positions instead of the first hundred, which a plan made
// before the first analyze finds by sorting all that wait. The relay publishes in the
// checkpoint's own transaction, and a message of an event is its workspace and number:
// what else it has is read from the log. Messages are removed a minute after every
// group has passed them, and after a week in any case, with a warning. Watermill-sql's
// own adapters do none of this; we use its publisher and subscriber.
//
// # NATS and Kafka
//
// NATS is JetStream, with one message under way for each group, because a second one
// could overtake a first that has to come again; the server gives it to another
// process when it was out for longer than all tries, their pauses and parking may
// take, each try being cut off after three seconds. A process that stops finishes its
// message, or gives it back, after it has left the group: the next one is another's at once.
// Of Watermill's library for NATS only the publisher is used (nats.go says why). Kafka
// keys messages by workspace; its topics are the operator's. A bus that is away is said in
// the log and tried again; requests do not notice. What was there before the bus is not
// published: it has no consumer.
package bus
