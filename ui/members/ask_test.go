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
	you := client.Member{Name: "Ada Lind", Role: "Owner", DisplayRole: "Owner", IsYou: true}
	other := client.Member{Name: "Mia Torres", Role: "Maintainer", DisplayRole: "Maintainer"}
	for _, c := range []struct {
		q           page.Question
		title, text string
	}{
		{roleQuestion(v, you), "Make yourself a {}?", "You lose what an Owner can do. It applies at once."},
		{roleQuestion(v, other), "Make Mia Torres a {}?", "They lose what a Maintainer can do. It applies at once."},
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
