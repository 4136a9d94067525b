//go:build race

package api

const parallelRequests = 200 // the race detector makes each request ten times slower
