package schema

// Idempotency is the header that makes a request safe to retry.
type Idempotency struct {
	Key string `header:"Idempotency-Key" maxLength:"200" doc:"Makes the request safe to retry: it takes effect once per key, for at least 30 days."`
}

// A Position is the sequence number that the workspace's log reached by a command.
type Position struct {
	Position int64 `header:"X-Svc-Position" doc:"The sequence number that the workspace's log reached by this request."`
}
