package members

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

// A question to the member whom it is about is in the second person.
func TestQuestions(t *testing.T) {
	t.Parallel()
	v := &page.Visit{Workspace: client.Workspace{Name: "Acme"}}
	you := client.Member{Name: "Ada Lind", Role: "Owner", DisplayRole: "Owner", IsYou: true, CanApproveLoops: true}
	other := client.Member{Name: "Mia Torres", Role: "Maintainer", DisplayRole: "Maintainer", CanApproveLoops: true}
	other.ApproveLoopsExplicit = true
	viewer := client.Member{Name: "Vera Novak", Role: "Viewer", DisplayRole: "Viewer"}
	legacy := client.Member{Name: "Leo Brandt", Role: "member", DisplayRole: "Viewer"}
	for _, c := range []struct {
		q           page.Question
		title, text string
	}{
		{
			roleQuestion(you, "Viewer"), "Make yourself a Viewer?", "You can then only read. Pending invitations that you may no longer send " +
				"are revoked. You also lose approve-loops: you can no longer approve and merge. It applies at once.",
		},
		{
			roleQuestion(other, "Viewer"), "Make Mia Torres a Viewer?", "They can then only read. Pending invitations that they may no longer " +
				"send are revoked. It applies at once.",
		},
		{
			roleQuestion(viewer, "Maintainer"), "Make Vera Novak a Maintainer?", "They can then invite and remove people, and manage runs, " +
				"repositories and machines. They also get approve-loops: they can approve and merge. It applies at once.",
		},
		{
			roleQuestion(other, "Owner"), "Make Mia Torres an Owner?", "They can then do everything, and change and remove any Owner. " +
				"It applies at once.",
		},
		{roleQuestion(legacy, "Viewer"), "Make Leo Brandt a Viewer?", "They can no longer queue issues or review facts. It applies at once."},
		{approvalQuestion(v, you), "Take approve-loops from yourself?", "You can no longer approve and merge. It applies at once."},
		{approvalQuestion(v, other), "Take approve-loops from Mia Torres?", "They can no longer approve and merge. It applies at once."},
		{removeQuestion(v, you), "Leave Acme?", "Your access ends at once. Your activity stays in the audit log."},
		{removeQuestion(v, other), "Remove Mia Torres from Acme?", "Their access ends at once. Their activity stays in the audit log."},
	} {
		require.Equal(t, c.title, c.q.Title)
		require.Equal(t, c.text, c.q.Text)
	}
}

// A question costs one request, however many members there are. There is no question about an
// unknown member.
func TestQuestionCostsOneRequest(t *testing.T) {
	t.Parallel()
	var requests []string
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/gone") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"member_not_found","message":"There is no such member."}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"m1","name":"Mia Torres","role":"Maintainer","displayRole":"Maintainer"}`)
	}))
	t.Cleanup(rest.Close)
	ask := func(id string) page.Question {
		r := httptest.NewRequest(http.MethodPost, "/w/acme/members/"+id+"/remove", nil)
		r.SetPathValue("workspace", "acme")
		r.SetPathValue("id", id)
		v := &page.Visit{Request: r, API: client.NewService(rest.URL).NewSession(r, "acme"), Workspace: client.Workspace{Name: "Acme"}}
		q, err := askAboutMember(removeQuestion)(v)
		require.NoError(t, err)
		return q
	}
	require.Equal(t, "Remove Mia Torres from Acme?", ask("m1").Title)
	require.Zero(t, ask("gone"))
	require.Equal(t, []string{"/api/v1/members/m1", "/api/v1/members/gone"}, requests)
}

// A notice says the new role and whether the member may approve loops now. It offers to give the earlier role back, except
// to oneself, and one that cannot be given.
func TestRoleNotice(t *testing.T) {
	t.Parallel()
	v := &page.Visit{Request: httptest.NewRequest(http.MethodPost, "/w/acme/members/m1/role", nil)}
	v.SetPathValue("workspace", "acme")
	viewer := client.Member{Id: "m1", Name: "Vera Novak", Role: "Viewer", DisplayRole: "Viewer"}
	maintainer := client.Member{Id: "m1", Name: "Vera Novak", Role: "Maintainer", DisplayRole: "Maintainer", CanApproveLoops: true}
	back := func(role string) *page.Undo {
		return &page.Undo{Action: "/w/acme/members/m1/role", Values: map[string]string{"role": role}}
	}
	require.Equal(t, page.Notice{Text: "Vera Novak is now Maintainer, and may approve loops.", Undo: back("Viewer")},
		roleNotice(v, viewer, maintainer))
	require.Equal(t, page.Notice{Text: "Vera Novak is now Viewer, and may no longer approve loops.", Undo: back("Maintainer")},
		roleNotice(v, maintainer, viewer))
	legacy, you := viewer, viewer
	legacy.Role, you.IsYou = "member", true
	require.Equal(t, page.Notice{Text: "Vera Novak is now Viewer."}, roleNotice(v, legacy, viewer))
	require.Nil(t, roleNotice(v, maintainer, you).Undo)
}
