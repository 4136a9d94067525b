package codehost

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/dev/codehost/people"
)

func TestEnterpriseAndGitea(t *testing.T) {
	t.Parallel()
	s := start(t)
	token := s.token(t, "pat")
	require.JSONEq(t, s.get(t, "/user", token).body, s.get(t, "/api/v3/user", token).body)
	require.Contains(t, s.get(t, "/user", token).body, `"email":"pat@open.example"`)
	require.JSONEq(t, `[{"email":"pat@open.example","primary":true,"verified":true,"visibility":"public"}]`,
		s.get(t, "/api/v3/user/emails", token).body)

	token = s.token(t, "eve")
	require.JSONEq(t, `{"id":2,"login":"eve","username":"eve","full_name":"","email":"ada@acme.example","active":true,
		"avatar_url":"`+s.url+`/avatars/eve","html_url":"`+s.url+`/eve"}`, s.get(t, "/api/v1/user", token).body)
	require.JSONEq(t, `[{"email":"ada@acme.example","primary":true,"verified":false,"user_id":2,"username":"eve"}]`,
		s.get(t, "/api/v1/user/emails", token).body)
}

func TestAddressesArePaged(t *testing.T) {
	t.Parallel()
	many := people.Person{Login: "many"}
	for i := range 35 {
		many.Emails = append(many.Emails, people.Email{Address: fmt.Sprintf("a%d@many.example", i), Verified: true})
	}
	s := start(t, func(c *Config) { c.People = []people.Person{many} })
	token := s.token(t, "many")
	count := func(path string) (int, string) {
		res := s.get(t, path, token)
		var list []email
		require.NoError(t, json.Unmarshal([]byte(res.body), &list))
		return len(list), res.header.Get("Link")
	}
	for path, want := range map[string]int{
		"/user/emails": 30, "/user/emails?page=2": 5, "/user/emails?page=3": 0, "/user/emails?per_page=100": 35,
		"/user/emails?per_page=1000&page=x": 35, "/api/v1/user/emails": 35,
	} {
		n, next := count(path)
		require.Equal(t, want, n, path)
		require.Equal(t, want == 30, next != "", path)
	}
	_, next := count("/user/emails")
	require.Equal(t, "<"+s.url+`/user/emails?per_page=30&page=2>; rel="next"`, next)
}
