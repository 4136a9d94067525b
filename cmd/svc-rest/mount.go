package main

import (
	"net/http"
	"strings"
)

// A mount is a part of the service: all paths with a prefix. Each part sets the limits of its own
// routes.
type mount struct {
	prefix  string
	handler http.Handler
}

// mounts dispatches a request to the first part whose prefix matches. The last one has the prefix
// "".
type mounts []mount

func (list mounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, m := range list {
		if strings.HasPrefix(r.URL.Path, m.prefix) {
			m.handler.ServeHTTP(w, r)
			return
		}
	}
}
