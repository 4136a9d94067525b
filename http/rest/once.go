package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humahttprouter"

	"svc/fault"
	"svc/http/reply"
)

// checkQuery refuses parameters of the operation that are empty, which huma takes
// for absent, or repeated, of which it takes the first. Parameters that the operation
// does not have are huma's to refuse.
func (s *Server) checkQuery(ctx huma.Context, next func(huma.Context)) {
	r, w, _ := humahttprouter.Unwrap(ctx)
	if wrong := wrongQuery(ctx.Operation().Parameters, r.URL.Query()); len(wrong) > 0 {
		reply.Error(w, r, s.Log, fault.Fields(wrong))
		return
	}
	next(ctx)
}

func wrongQuery(parameters []*huma.Param, query url.Values) map[string][]string {
	wrong := map[string][]string{}
	for _, p := range parameters {
		if text := reply.Once(query[p.Name]); p.In == "query" && text != "" {
			wrong[p.Name] = []string{text}
		}
	}
	return wrong
}

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
			return fault.Field(name, reply.SentTwice)
		case len(values) == 1 && values[0] == "" && slices.Contains(filledHeaders, name):
			return fault.Field(name, reply.SentEmpty)
		}
	}
	if lines := h.Values("If-None-Match"); len(lines) > 1 {
		h.Set("If-None-Match", strings.Join(lines, ", "))
	}
	return nil
}
