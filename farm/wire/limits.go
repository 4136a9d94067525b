package wire

import "time"

// Version names the protocol, as Sec-WebSocket-Protocol has it.
const Version = "svc-farm.v1"

// Limits of the protocol.
const (
	MaxMessage     = 1 << 20   // bytes of a frame from a runner
	MaxAssign      = 4 << 20   // bytes of a frame from the service: specifications and secrets are in it
	MaxChunk       = 64 << 10  // bytes of log in a chunk
	MaxHeld        = 256       // jobs that a runner may hold
	MaxLog         = 64 << 20  // bytes of log of an epoch; what comes after is dropped by the runner, with a marker
	MaxNumber      = 1<<53 - 1 // of a message of a job: all readers of JSON know it
	WindowMessages = 256       // of a job that are not acknowledged
	WindowBytes    = 4 << 20

	HelloLimit     = 10 * time.Second // from the upgrade to Hello
	HeartbeatEvery = 10 * time.Second
	PingEvery      = 15 * time.Second // by the service
	ReadLimit      = 35 * time.Second // without any frame: the connection is dead
	WriteLimit     = 10 * time.Second
	AcceptLimit    = 20 * time.Second // from Assign to Accept or Decline
	StalledAfter   = 30 * time.Second // without a heartbeat
	LeaseTime      = 90 * time.Second // a job is taken away after that without a heartbeat that lists it
	FenceMargin    = 10 * time.Second // a runner kills a job so long before its lease ends
)

// Codes with which the service closes a connection. 1012 (service restart) is used too.
const (
	CloseRevoked    = 4001 // the runner ends, and does not come back
	CloseSuperseded = 4002 // by a newer connection of the same runner
	CloseProtocol   = 4003 // a frame that the protocol does not have
	CloseFlood      = 4008 // more than the limits allow
)
