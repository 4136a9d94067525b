// Package proof makes every later change of a log detectable.
//
// The events of a workspace are the leaves of a Merkle log. The hash of each event is stored, and
// the hashes of subtrees up to a root over all events. The root and the number of events are signed
// periodically. To change, remove, reorder or insert an event that was signed, an attacker needs a
// hash collision or the signing key; or must delete every checkpoint of the log, so that it is
// signed again from its beginning.
//
// The signing key is sealed in the vault, so access to the database does not suffice to sign. The
// public key is stored in clear beside it. Keep a copy of it elsewhere: whoever can write to the
// database could replace it together with all signatures. The database alone also cannot show that
// all of it was set back to an earlier or empty state: verify with a checkpoint that was kept
// elsewhere.
//
// # Signing and verifying
//
// Each event is a leaf of its workspace's Merkle log; leaf.go defines its bytes. A follower hashes
// the events up to the head of the log, stores the hashes (those of 256 events in one tile once it
// is full), and signs a checkpoint with an Ed25519 key from the vault. It signs at most once a
// second for each log, so the newest checkpoint may be a second old, and at once when somebody asks
// any process of the service to verify the log. Before it extends a log it compares the stored
// hashes with the newest checkpoint, so it never signs changed records while any checkpoint is
// left.
//
// A verification recomputes all hashes, keeping two stacks of at most 63 hashes in memory. It
// compares them with the stored hashes, to find the bad record, and with every stored checkpoint (the
// last of each 1,024 events), to find out whether the record or its hash was changed. Two attacks
// do not show in the database alone: setting all of it back to an earlier or empty state, after
// which it is signed again, and replacing the key together with all signatures. So a verification
// accepts what was kept elsewhere: -verifier-key and -checkpoint of svc-db verify, since of GET
// /audit/verify. The log must be an extension of that checkpoint.
//
// Beyond the newest checkpoint a verification checks that no event up to the head is missing, and
// reports how many are unsigned. Events that exist when it begins get ten seconds to be signed
// (due.go); otherwise the result is not ok. The times in events do not count for that, since they
// can be altered while unsigned. A process that ends signs what is left, so that a stopped service
// leaves nothing unsigned. Every process looks for unsigned logs, by their checkpoints and not by
// the prover's position, for at most a fiftieth of the time (overdue.go). A process that finds logs
// unsigned for more than ten seconds reports it in its log, its metrics and /health/ready.
//
// Each event has a MAC of its author, under a key derived from the vault's (events/store), over
// everything in it but its number and time, which the database assigns. It costs a microsecond and
// 25 bytes. The prover checks the MAC before it signs (author.go), and stops at an event without
// one, whoever made the log. Older builds appended events without MACs, and have to sign them
// before they are stopped for good. Only svc-db replace-key signs events of any author.
//
// # Reading signed events
//
// Commands are decided from events, so a process checks those that it loads (events/store). One whose
// MAC is valid was appended by the service. For one without, which a build without MACs appended, or
// under a vault key that was replaced, the signature counts: its hash must be in the tree of the
// newest checkpoint (signed.go). That takes the tile that the event is in and those above it, and
// about a millisecond.
//
// # A lost key
//
// When the vault's key is lost for good, the service works, but nothing is signed or verified: 503
// signing_key_unavailable. svc-db replace-key (replace.go) creates a new signing key under the
// vault's present key. First it verifies each log with the public key of the lost one, of which the
// operator must supply a copy kept elsewhere. A log that fails is reported and left alone. Then an
// event signing_key.replaced in the log records both keys and the last record that the lost one
// signed, before signing continues. The new key adds its signature to the lost key's checkpoints,
// so that they still locate changes, and a verification lists the former keys. Events appended in
// between are signed as they are, because their MACs cannot be checked. People's tokens at their
// code host are lost with the key, as are snapshots, which are recreated. Sessions, fingerprints of
// service tokens and passwords do not depend on the vault.
//
// # Exports
//
// All of the above trusts the service. Each line of an export with leaf=true contains the bytes of
// its leaf, so svc-db verify -export with a kept answer (export.go), or any program that can
// compute SHA-256, can recompute the root without the service. A leaf is the event itself. svc-db also
// computes the rest of each line from the leaves, the target's last known name from earlier ones, and
// compares it byte for byte.
package proof
