// Package artifacts keeps the files that jobs leave: what a runner says it will
// send, what of it has come, and the bytes.
//
// # What is where
//
// The truth is in the log: which files a job has, and that each is whole. Nobody
// reads a file of which no event says so. Of an upload that is under way there is
// no row anywhere: what has come of it lies in the [Store], and each replica sees
// that by listing the folder of the job. A runner sends its manifest with each
// request, so nothing else has to be remembered.
//
//	<workspace>/<job>/<artifact>.<attempt>.<chunk>.<token>   a chunk
//	<workspace>/<job>/<artifact>                             the seal: which chunks the file is made of
//	<workspace>/<job>/<artifact>.<attempt>                   says that the chunks of an attempt were another file
//
// A store puts an object whole or not at all, never over another one, and nobody
// writes to an object that is there. The token is drawn for each put, so two who
// send the same chunk disturb nobody. Whoever has the last chunk of a file hashes
// them all, in what order they came, and seals exactly those which were hashed; the
// first seal stays. If the digest is another one the attempt is over and the next
// begins. Nothing is removed then but by a sweep, when no upload can go on: somebody
// else may be sealing the same chunks. A crash between any two of these steps leaves chunks,
// which are taken up again or swept, or a seal of which there is no event yet, which the
// next request finds. If none comes, the file is removed a day after the upload was given up.
//
// No name that a runner sends is part of a key. Names are judged all the same
// ([wire.BadPath]): people unpack them elsewhere.
package artifacts
