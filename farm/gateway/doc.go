// Package gateway is the reference gateway of the build farm: a TLS proxy in front of the REST
// service that forwards what runners need and nothing else.
//
// [Rules] lists what it forwards; the tests read the list too. Any other gateway must do the same, as do nginx, HAProxy and
// Caddy with the files of docs/gateway:
//
//   - Request a client certificate, but neither require nor verify one. Forward it as URL-encoded
//     PEM in one header, which no client can set in any spelling.
//   - Answer 404 for paths without a rule, always with the same answer, and for path spellings on
//     which servers disagree: with %, with //, with a segment that begins with a dot.
//   - Limit the number of connections and of TLS handshakes, in total and per address.
//   - Let only the WebSocket of the agent's path change the protocol.
//   - Stream bodies, up to the limit of each path.
package gateway
