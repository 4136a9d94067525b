// Package gateway is the reference gateway of the build farm: a proxy with TLS before
// the REST service that lets through what runners need and nothing else.
//
// What that is stands in [Rules], which the tests read too. A gateway of another make
// must do the same:
//
//   - It asks for a client certificate, takes none for an answer, judges none, and hands
//     it on as PEM, URL-encoded, in one header that no client can set in any spelling.
//   - Paths of no rule are 404, all with the same answer, and so is each spelling of a
//     path that servers disagree on: with %, with //, with a segment that begins with a dot.
//   - Connections are bounded in number, in all and from one address, and so are handshakes.
//   - Bodies are handed on as they come, up to a limit of each path.
package gateway
