package wire

import "time"

// Version is the name of the protocol in Sec-WebSocket-Protocol.
const Version = "svc-farm.v1"

// Limits of the protocol.
const (
	MaxMessage     = 1 << 20   // bytes of a frame from a runner
	MaxAssign      = 4 << 20   // bytes of a frame from the service, which holds a job's specification and secrets
	MaxChunk       = 64 << 10  // bytes of log in a chunk
	MaxHeld        = 256       // jobs in a hello or a heartbeat
	MaxLog         = 64 << 20  // bytes of log in an epoch; the runner drops the rest and adds a marker
	MaxNumber      = 1<<53 - 1 // largest message number: every JSON reader can represent it
	WindowMessages = 256       // unacknowledged messages of a job
	WindowBytes    = 4 << 20   // unacknowledged bytes of a job

	HelloTimeout   = 10 * time.Second // from the upgrade to Hello
	HeartbeatEvery = 10 * time.Second
	PingEvery      = 15 * time.Second // sent by the service
	ReadTimeout    = 35 * time.Second // without any frame, after which the connection is dead
	WriteTimeout   = 10 * time.Second
	AcceptTimeout  = 20 * time.Second // from Assign to Accept or Decline
	StalledAfter   = 30 * time.Second // without a heartbeat, after which a job is shown as stalled
	LeaseTime      = 90 * time.Second // a job that no heartbeat lists for this long is taken away
	FenceMargin    = 10 * time.Second // a runner kills a job this long before its lease expires
)

// WebSocket close codes of the service. It also uses 1012 (service restart).
const (
	CloseRevoked    = 4001 // the runner exits and does not reconnect; the text may be Retired
	CloseSuperseded = 4002 // by a newer connection of the same runner
	CloseProtocol   = 4003 // a malformed or unexpected frame
	CloseExpired    = 4004 // the certificate that the connection was opened with has expired
	CloseFlood      = 4008 // more than the limits allow
)

// Retired is the text of [CloseRevoked] for a runner that has done the jobs that it was enrolled for.
const Retired = "retired"
