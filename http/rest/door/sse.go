package door

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Bounds of a stream of server-sent events.
const (
	StreamLimit     = time.Hour        // then the client reconnects
	StreamHeartbeat = 15 * time.Second // interval
	StreamRetry     = 2000             // milliseconds before a client reconnects

	streamWriteTimeout = 10 * time.Second // for a client to accept a chunk
)

// BeginEvents begins a response of server-sent events, and returns what writes them.
func BeginEvents(w http.ResponseWriter) *DeadlineWriter {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // keeps proxies from buffering
	return NewDeadlineWriter(w, Pace{Timeout: streamWriteTimeout}, nil)
}

// EventText returns an event as sent.
func EventText(id int64, event string, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // cannot happen: strings and numbers
	}
	return fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", id, event, text)
}
