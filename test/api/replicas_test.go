package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testReplicas runs two processes over one database. What one of them leads, the
// other takes over when it is killed, and what happened meanwhile comes to view.
func testReplicas(t *testing.T, s *site) {
	database := s.clone(t)
	first := s.serve(t, database)
	leads := func(v *service) bool {
		text, _ := v.out.read()
		return strings.Contains(text, "became the leader")
	}
	eventually(t, func() bool { return leads(first) }, "the first does not lead")
	second := s.serve(t, database)

	// A command through either is seen through the other, and at once, though
	// only one of them keeps the views.
	for i, v := range []*service{first, second} {
		other := []*service{second, first}[i]
		slug := []string{"acme-1", "acme-2"}[i]
		done := v.ask(t, "ada@id:acme", "PATCH /api/v1/workspace", `{"slug":"`+slug+`"}`).is(t, "200")
		seen := other.ask(t, "ada@id:acme", "GET /api/v1/audit?action=workspace.renamed&limit=1", "",
			"X-Svc-Min-Position: "+done.header.Get("X-Svc-Position")).is(t, "200")
		require.Contains(t, seen.body, slug)
	}

	first.kill(t)
	begin := time.Now()
	done := second.ask(t, "ada@id:acme", "PATCH /api/v1/workspace", `{"slug":"acme-3"}`).is(t, "200")
	eventually(t, func() bool { return leads(second) }, "nobody leads")
	require.Less(t, time.Since(begin), 30*time.Second) // 5 s on a machine that has time
	seen := second.ask(t, "ada@id:acme", "GET /api/v1/audit?action=workspace.renamed&limit=1", "",
		"X-Svc-Min-Position: "+done.header.Get("X-Svc-Position")).is(t, "200")
	require.Contains(t, seen.body, "acme-3")
}
