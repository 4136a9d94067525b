package rest

import (
	"net/http"
	"slices"
	"strings"

	"svc/fault"
	"svc/http/reply"
)

// The headers that may be sent once, and those of them that may not be empty:
// whoever sends these counts on what they do. An empty X-Svc-Tenant and an empty
// Last-Event-ID mean what their absence means.
var (
	onceHeaders   = []string{"X-Svc-Tenant", "X-Svc-Min-Position", "Idempotency-Key", "Last-Event-ID"}
	filledHeaders = []string{"X-Svc-Min-Position", "Idempotency-Key"}
)

// checkHeaders refuses headers that are empty or repeated where that is no
// request. If-None-Match is a list, which may be spread over several lines: it is
// made one.
func checkHeaders(h http.Header) error {
	for _, name := range onceHeaders {
		switch values := h.Values(name); {
		case len(values) > 1:
			return fault.Field(name, reply.RepeatedValue)
		case len(values) == 1 && values[0] == "" && slices.Contains(filledHeaders, name):
			return fault.Field(name, reply.EmptyValue)
		}
	}
	if lines := h.Values("If-None-Match"); len(lines) > 1 {
		h.Set("If-None-Match", strings.Join(lines, ", "))
	}
	return nil
}
