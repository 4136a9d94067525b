package codehost

import (
	"net/http"
)

// testRoutes are for tests: they count effects, and with faults on they make the host fail.
func (h *host) testRoutes(mux *http.ServeMux) {
	mux.Handle("GET /_test/counts", h.counts)
	if h.faults == nil {
		return
	}
	mux.HandleFunc("GET /_test/faults", h.faults.Show)
	mux.HandleFunc("POST /_test/faults", h.faults.Add)
	mux.HandleFunc("DELETE /_test/faults", h.faults.Clear)
}
