package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testReplicas runs two processes on one database. When the leader is killed, the other process becomes
// the leader, and events appended meanwhile reach the views.
func testReplicas(t *testing.T, s *fixture) {
	database := s.cloneDatabase(t)
	first := s.serve(t, database)
	leads := func(v *service) bool {
		text, _ := v.out.read()
		return strings.Contains(text, "became the leader")
	}
	eventually(t, func() bool { return leads(first) }, "the first process does not lead")
	second := s.serve(t, database)

	// A command through either process is visible through the other at once, though only the leader
	// updates the views.
	for i, v := range []*service{first, second} {
		other := []*service{second, first}[i]
		slug := []string{"acme-1", "acme-2"}[i]
		done := v.ask(t, "ada@id:acme", "PATCH /api/v1/workspace", `{"slug":"`+slug+`"}`).is(t, "200")
		listed := other.ask(t, "ada@id:acme", "GET /api/v1/audit?action=workspace.renamed&limit=1", "",
			"X-Svc-Min-Position: "+done.header.Get("X-Svc-Position")).is(t, "200")
		require.Contains(t, listed.body, slug)
	}

	first.kill(t)
	start := time.Now()
	done := second.ask(t, "ada@id:acme", "PATCH /api/v1/workspace", `{"slug":"acme-3"}`).is(t, "200")
	eventually(t, func() bool { return leads(second) }, "no process leads")
	require.Less(t, time.Since(start), 30*time.Second) // 5 s on an idle machine
	listed := second.ask(t, "ada@id:acme", "GET /api/v1/audit?action=workspace.renamed&limit=1", "",
		"X-Svc-Min-Position: "+done.header.Get("X-Svc-Position")).is(t, "200")
	require.Contains(t, listed.body, "acme-3")
}
