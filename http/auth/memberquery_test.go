package auth_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

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

// Filters support Better Auth's operators on each field.
func TestMemberFilters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.advance(time.Hour)
	vera, _ := s.addMember("vera", events.Viewer)
	s.advance(time.Hour)
	leo, leoUser := s.addMember("leo", events.Maintainer)
	between := s.now().Add(-time.Minute).UTC().Format(time.RFC3339)
	cookie := s.signIn()
	ask := func(field, operator string, values ...string) answer {
		q := url.Values{"filterField": {field}, "filterValue": values, "sortBy": {"createdAt"}}
		if operator != "" {
			q.Set("filterOperator", operator)
		}
		return s.do(call{path: "/organization/list-members?" + q.Encode(), cookie: cookie})
	}
	id := vera.String()
	for _, c := range []struct {
		field, operator string
		values, want    []string
	}{
		{"role", "", []string{"viewer"}, []string{"vera"}},
		{"role", "eq", []string{"Viewer"}, []string{"vera"}},
		{"role", "ne", []string{"viewer"}, []string{"Zoë Brandt", "leo"}},
		{"role", "lt", []string{"n"}, []string{"leo"}},
		{"role", "in", []string{"owner", "MAINTAINER"}, []string{"Zoë Brandt", "leo"}},
		{"role", "in", nil, nil},
		{"role", "not_in", []string{"owner"}, []string{"vera", "leo"}},
		{"role", "not_in", nil, []string{"Zoë Brandt", "vera", "leo"}},
		{"role", "contains", []string{"WNE"}, []string{"Zoë Brandt"}},
		{"role", "contains", []string{""}, []string{"Zoë Brandt", "vera", "leo"}},
		{"role", "contains", []string{"%"}, nil},
		{"role", "starts_with", []string{"v"}, []string{"vera"}},
		{"role", "starts_with", []string{"iew"}, nil},
		{"role", "ends_with", []string{"er"}, []string{"Zoë Brandt", "vera", "leo"}},
		{"role", "ends_with", []string{"wer"}, []string{"vera"}},
		{"id", "eq", []string{id}, []string{"vera"}},
		{"id", "in", []string{id, leo.String()}, []string{"vera", "leo"}},
		{"id", "not_in", []string{id, leo.String()}, []string{"Zoë Brandt"}},
		{"id", "starts_with", []string{id[:35]}, []string{"vera"}},
		{"id", "ends_with", []string{id[8:]}, []string{"vera"}},
		{"userId", "contains", []string{leoUser.String()[4:]}, []string{"leo"}},
		{"createdAt", "gt", []string{between}, []string{"leo"}},
		{"createdAt", "lte", []string{between}, []string{"Zoë Brandt", "vera"}},
		{"createdAt", "not_in", []string{between}, []string{"Zoë Brandt", "vera", "leo"}},
	} {
		a := ask(c.field, c.operator, c.values...)
		require.Equal(t, http.StatusOK, a.StatusCode, "%v: %s", c, a.text)
		var body struct {
			Members []struct{ User struct{ Name string } }
			Total   int
		}
		decode(t, a.text, &body)
		var names []string
		for _, m := range body.Members {
			names = append(names, m.User.Name)
		}
		require.Equal(t, c.want, names, c)
		require.Equal(t, len(c.want), body.Total, c)
	}
	for _, c := range []struct {
		field, operator string
		values          []string
	}{
		{"shoeSize", "eq", []string{"7"}}, {"role", "like", []string{"o"}}, {"role", "eq", []string{"owner", "viewer"}},
		{"role", "contains", []string{"o", "v"}}, {"id", "in", []string{id, "x"}}, {"id", "eq", []string{"x"}},
		{"createdAt", "contains", []string{"2026"}}, {"createdAt", "lt", []string{"today"}}, {"createdAt", "in", []string{""}},
	} {
		ask(c.field, c.operator, c.values...).requireRefused(400, "VALIDATION_ERROR")
	}
}
