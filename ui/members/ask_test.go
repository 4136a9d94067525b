package members

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// Questions are in the second person to whoever they are about, and in good English.
func TestQuestions(t *testing.T) {
	t.Parallel()
	v := &page.Visit{Workspace: client.Workspace{Name: "Acme"}}
	you := client.Member{Name: "Ada Lind", Role: "Owner", DisplayRole: "Owner", IsYou: true}
	other := client.Member{Name: "Mia Torres", Role: "Maintainer", DisplayRole: "Maintainer"}
	for _, c := range []struct {
		q           page.Question
		title, text string
	}{
		{roleQuestion(v, you), "Make yourself a {}?", "This takes away what an Owner can do. It applies at once."},
		{roleQuestion(v, other), "Make Mia Torres a {}?", "This takes away what a Maintainer can do. It applies at once."},
		{approvalQuestion(v, you), "Take approve-loops from yourself?", "You can no longer approve and merge. It applies at once."},
		{approvalQuestion(v, other), "Take approve-loops from Mia Torres?", "They can no longer approve and merge. It applies at once."},
		{removeQuestion(v, you), "Leave Acme?", "Your access ends at once. What you did stays in the audit log."},
		{removeQuestion(v, other), "Remove Mia Torres from Acme?", "Access ends at once. What they did stays in the audit log."},
	} {
		require.Equal(t, c.title, c.q.Title)
		require.Equal(t, c.text, c.q.Text)
	}
}
