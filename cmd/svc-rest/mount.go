package main

import (
	"net/http"
	"strings"
)

// A mount is a part of the service: all paths with a prefix. Each holds its routes to
// limits of its own.
type mount struct {
	prefix  string
	handler http.Handler
}

// mounts lead a request to the first part that has its path. The last has the prefix "".
type mounts []mount

func (list mounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, m := range list {
		if strings.HasPrefix(r.URL.Path, m.prefix) {
			m.handler.ServeHTTP(w, r)
			return
		}
	}
}
