package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
)

func TestHistoryDescribesEvents(t *testing.T) {
	name := "Mia Torres"
	person := client.AuditActor{Type: "user", Name: "mia@acme.example", DisplayName: &name}
	loop := client.AuditActor{Type: "system", Name: "loop"}
	list := history([]client.EventRecord{
		{Kind: "run.of_tomorrow", Actor: loop, Data: "not an object"},
		{Kind: "decision.answered", Actor: person, Data: map[string]any{"action": "request_changes", "note": "<b>Keep it.</b>"}},
		{Kind: "run.plan_recorded", Actor: loop, Data: map[string]any{"summary": "Escape it.", "steps": []string{"Test", "Change"}}},
		{Kind: "run.cost_recorded", Actor: loop, Data: map[string]any{"cents": 4}},
		{Kind: "run.stage_entered", Actor: loop, Data: map[string]any{"stage": "build_farm", "attempt": 2}},
		{Kind: "run.queued", Actor: person, Data: map[string]any{"issueNumber": 7}},
	})
	type line struct {
		text, by string
		notes    []string
	}
	var got []line
	for _, s := range list {
		got = append(got, line{s.text, s.by, s.notes})
	}
	require.Equal(t, []line{
		{"Run: of tomorrow", "", nil},
		{"Answered: Request changes", "Mia Torres", []string{"<b>Keep it.</b>"}},
		{"Planned", "", []string{"Escape it.", "Test", "Change"}},
		{"Build farm started, round 2", "", nil},
		{"Queued", "Mia Torres", nil},
	}, got)
}
