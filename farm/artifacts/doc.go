// Package artifacts stores the files that jobs leave: the manifest that a runner sends, the
// progress of uploads, and the data.
//
// # Where state is
//
// The log is the truth: it says which files a job has, and that each is complete. A file without an
// event is never read. An upload in progress has no row in the database. Its chunks are in the
// [Store], and each replica sees them by listing the job's folder. A runner sends its manifest with
// each request, so nothing else needs to be remembered.
//
//	<workspace>/<job>/<artifact>.<attempt>.<chunk>.<token>   a chunk
//	<workspace>/<job>/<artifact>                             the seal: which chunks make up the file
//	<workspace>/<job>/<artifact>.<attempt>                   marks an attempt whose chunks had another digest
//	<workspace>/<job>/<artifact>.<attempt>.<n>.sum           the state of the digest of the first n chunks
//
// A store puts an object atomically, never over another one, and objects never change. Each put
// draws a random token, so concurrent uploads of the same chunk do not conflict. Chunks are hashed
// while they arrive, and synced in the background while the next one arrives; a request that ends
// before a file is complete stores the state of its digest. Whoever stores the last chunk of a file
// hashes what is left, waits until all chunks are durable, and seals exactly those; the first seal
// wins. If the digest differs, the attempt has failed and the next one begins. Chunks are then left
// to a sweep, which removes them when no upload can be in progress, because another replica may be
// sealing the same chunks. A crash between any two of these steps leaves chunks, which are used by
// the next request or swept, or a seal without an event, which the next request finds. If no
// request comes, the file is removed a day after the upload was abandoned.
//
// Names that a runner sends are never part of a key. They are checked all the same
// ([wire.PathProblem]), since people extract the files elsewhere.
package artifacts
