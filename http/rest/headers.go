package rest

import (
	"net/http"
	"slices"
	"strings"

	"svc/fault"
	"svc/http/reply"
)

// Headers that may be sent once, and those of them that must not be empty. An empty X-Svc-Tenant or
// Last-Event-ID is treated as absent.
var (
	onceHeaders   = []string{"X-Svc-Tenant", "X-Svc-Min-Position", "Idempotency-Key", "Last-Event-ID"}
	filledHeaders = []string{"X-Svc-Min-Position", "Idempotency-Key"}
)

// checkHeaders refuses headers that are repeated or empty and must not be. It joins the lines of
// If-None-Match, which is a list.
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
