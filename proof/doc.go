// Package proof makes every later change of a log show.
//
// The events of a workspace are the leaves of a Merkle log: the hash of each is
// stored, and hashes over them up to a root that stands for all. Again and again
// the root is signed, together with how many events it stands for. Whoever
// changes, removes, swaps or slips in an event that was signed for would have to
// find another with the same hash, or the key; or take away all that was ever
// signed for that log, so that it is signed anew from its beginning.
//
// The key is sealed in the vault, so the database alone does not give it away;
// its public side is in clear beside it. Keep a copy of that elsewhere: who may
// write to the database could replace it together with everything it signed.
// What nobody can see in the database alone is that all of it was set back to
// an earlier state, or to none: verify with a checkpoint that was kept elsewhere.
//
// # Signing and verifying
//
// Each event is a leaf of its workspace's Merkle log; leaf.go says which bytes. A
// follower of its own hashes what lies up to the head of the log, stores the hashes,
// those of 256 events in one tile once there are as many, and signs a checkpoint with
// an Ed25519 key that the vault keeps: at most once a second for each log, so the newest
// checkpoint may be a second old, and at once when somebody asks the service to verify
// the log, whichever process they ask. Before it goes on it holds the stored hashes
// against the newest checkpoint, so nothing that was changed is signed for, as long as
// there is something left that was signed. A verification recomputes all of it beside
// two stacks of 63 hashes, and compares with the stored hashes, to name the record,
// and with every kept checkpoint (the last of each 1,024 events), to know which of the
// two was changed. What the database alone cannot show is a whole set back to an
// earlier state or to none, after which it is signed anew, and a replaced key together
// with all it signed. So a verification takes what was kept elsewhere: -verifier-key
// and -checkpoint of svc-db verify, since of GET /audit/verify. The log has to lead on
// from that checkpoint.
//
// Beyond the newest checkpoint a verification goes on to the head of the log, where
// nothing may be missing, and tells how many events are unsigned. Those that were
// there when it began get ten seconds to be signed for (due.go); then it is not ok.
// Times in events do not count for that, as they may be altered while nothing is
// signed. So that a stopped service leaves nothing unsigned, one that ends signs for
// what is left. Every process looks for logs that are not signed for, by what is
// signed and not by the prover's position, and for no more than a fiftieth of the time
// (overdue.go). One that finds some for longer than ten seconds says so in its log,
// its metrics and /health/ready, and signs without the lease: a forged lease stops
// nothing.
//
// Each event has a MAC of who appended it, under a key derived from the vault's
// (events/store), of all that it says but its number and time, which the database
// gives it. It takes a microsecond and 25 bytes. The prover checks it before it signs
// (author.go), and stops before an event without. Events of builds before have none: a
// log needs them from the first event with one that is signed by a process which has
// run for an hour, for until then processes of a build before may append to it. Its
// checkpoints say so from there on, in a line authenticated that is signed like the
// rest. Only who has a log signed anew from before it is rid of it.
//
// # A lost key
//
// A key that is lost for good leaves the service working and nothing signed or
// verified: 503 signing_key_unavailable. svc-db replace-key (replace.go) makes another
// one under the key that the vault has now. First it verifies each log by the public
// side of the lost one, which the operator has to give as it was kept; a log that does
// not hold is named and left alone. Then the log itself says in signing_key.replaced
// which key took the place of which, and up to which record the lost one had signed,
// before anything is signed on. The new key adds its signature to the checkpoints of
// the lost one, so they go on telling where a record was changed, and a verification
// names the former keys. What nobody could sign for meanwhile is signed as it was
// found, for nobody can check its MACs either. Tokens of people at their code host are
// gone with the key, and snapshots, which are made again. Sessions, fingerprints of
// service tokens and passwords need no vault.
//
// All of that is the service's word. An export with leaf=true has in each line the
// bytes that the leaf is the hash of, so svc-db verify -export with an answer that was
// kept (export.go), or any program that can do SHA-256, comes to the root without
// asking. A leaf is the event itself. What else the line says follows from it and is
// compared byte for byte, but for what a target was called last.
package proof
