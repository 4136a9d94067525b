package auth_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
)

// addMember adds a new person to the workspace of the site's person.
func (s *site) addMember(slug string, role events.Role) (member, user events.ID) {
	s.t.Helper()
	home := events.NewID(s.now())
	member, user = events.NewID(s.now()), events.NewID(s.now())
	address := slug + "@acme.example"
	meta := commands.Meta{Workspace: home,
		Envelope: events.Envelope{Actor: events.Actor{Type: events.ByUser, ID: user, Name: address}, Origin: events.FromAuth}}
	_, err := s.config.Commands.RegisterUser(s.t.Context(), commands.RegisterUser{
		Meta: meta, User: user, Member: events.NewID(s.now()), Name: slug, Emails: []string{address}, WorkspaceName: slug, WorkspaceSlug: slug,
	})
	require.NoError(s.t, err)
	meta.Workspace = s.home
	_, err = s.config.Commands.AddMember(s.t.Context(), commands.AddMember{Meta: meta, Member: member, User: user, Email: address, Role: role})
	require.NoError(s.t, err)
	return member, user
}

// A filter selects one role. Other fields and operators of Better Auth are refused.
func TestMemberFilters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.addMember("vera", events.Viewer)
	s.addMember("leo", events.Maintainer)
	cookie := s.signIn()
	ask := func(field, operator string, values ...string) answer {
		q := url.Values{"filterField": {field}, "filterValue": values, "sortBy": {"createdAt"}}
		if operator != "" {
			q.Set("filterOperator", operator)
		}
		return s.do(call{path: "/organization/list-members?" + q.Encode(), cookie: cookie})
	}
	for _, c := range []struct{ operator, value, want string }{
		{"", "viewer", "vera"}, {"eq", "Viewer", "vera"}, {"eq", "MAINTAINER", "leo"}, {"eq", "owner", "Zoë Brandt"},
	} {
		var body struct {
			Members []struct{ User struct{ Name string } }
			Total   int
		}
		a := ask("role", c.operator, c.value)
		require.Equal(t, http.StatusOK, a.StatusCode, "%v: %s", c, a.text)
		decode(t, a.text, &body)
		require.Len(t, body.Members, 1, c)
		require.Equal(t, c.want, body.Members[0].User.Name)
		require.Equal(t, 1, body.Total, c)
	}
	for _, c := range []struct {
		field, operator string
		values          []string
	}{
		{"shoeSize", "eq", []string{"7"}}, {"id", "eq", []string{s.person.String()}}, {"createdAt", "gt", []string{"2026-01-01T00:00:00Z"}},
		{"role", "like", []string{"o"}}, {"role", "ne", []string{"owner"}}, {"role", "in", []string{"owner"}},
		{"role", "contains", []string{"o"}},
		{"role", "eq", []string{"owner", "viewer"}}, {"role", "eq", nil}, {"role", "eq", []string{"king"}},
	} {
		ask(c.field, c.operator, c.values...).requireRefused(400, "VALIDATION_ERROR")
	}
}
