package codehost

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/dev/codehost/oauth"
	"svc/dev/codehost/people"
)

func TestNewRejectsInconsistentConfig(t *testing.T) {
	t.Parallel()
	one := []people.Email{{Address: "a@acme.example"}}
	for name, c := range map[string]struct {
		people  []people.Person
		clients []oauth.Client
		want    string
	}{
		"nobody":            {[]people.Person{{Name: "Nobody"}}, nil, "without login and address"},
		"same login":        {[]people.Person{{ID: 1, Login: "a"}, {ID: 2, Login: "a"}}, nil, "another person has this login"},
		"same id":           {[]people.Person{{ID: 1, Login: "a"}, {ID: 1, Login: "b"}}, nil, "the id 1"},
		"made the same":     {[]people.Person{{Emails: one}, {Emails: one}}, nil, "another person"},
		"a login of spaces": {[]people.Person{{Login: "a b"}}, nil, "want a login"},
		"no address":        {[]people.Person{{Login: "a", Emails: []people.Email{{Address: "a"}}}}, nil, "no e-mail address"},
		"a look-alike":      {[]people.Person{{Login: "a", Emails: []people.Email{{Address: "mİa@acme.example"}}}}, nil, "no e-mail address"},
		"two primaries": {[]people.Person{{Login: "a", Emails: []people.Email{{Address: "a@a.example", Primary: true},
			{Address: "b@a.example", Primary: true}}}}, nil, "one primary"},
		"no callback": {nil, []oauth.Client{{ID: "a", Secret: "s"}}, "callback"},
		"no secret":   {nil, []oauth.Client{{ID: "a", Callback: callback}}, "a secret"},
		"same client": {nil, []oauth.Client{{ID: "a", Secret: "s", Callback: callback}, {ID: "a", Secret: "s", Callback: callback}},
			"an id of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(t.Context(), Config{People: c.people, Clients: c.clients, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAddPerson(t *testing.T) {
	t.Parallel()
	s := start(t)
	invent := func(name, email, verified string) response {
		return s.do(t, "POST", authorizeQuery(), url.Values{"new": {"1"}, "name": {name}, "email": {email}, verified: {"1"}}.Encode())
	}
	_, query := invent(" Ada <New> ", "ada@new.example", "verified").redirect(t)
	token := s.exchange(t, query.Get("code"))["access_token"]
	require.Contains(t, s.get(t, "/user", token).body, `"login":"ada-2"`)
	require.JSONEq(t, `[{"email":"ada@new.example","primary":true,"verified":true,"visibility":"private"}]`,
		s.get(t, "/user/emails", token).body)
	page := s.do(t, "GET", authorizeQuery(), "").body
	require.Contains(t, page, "Ada &lt;New&gt;")
	require.NotContains(t, page, "<New>")
	require.Contains(t, s.get(t, "/user", s.token(t, "ada-2")).body, `"login":"ada-2"`, "may be chosen from now on")

	_, query = invent("Una", "una@new.example", "-").redirect(t)
	token = s.exchange(t, query.Get("code"))["access_token"]
	require.Contains(t, s.get(t, "/user/emails", token).body, `"verified":false`)

	for name, c := range map[string][3]string{
		"no name":       {"", "x@new.example", "Give a name"},
		"no address":    {"X", "new", "Give an e-mail address"},
		"with comment":  {"X", "X <x@new.example>", "Give an e-mail address"},
		"a look-alike":  {"X", "\u212Aim@new.example", "Give an e-mail address"},
		"taken":         {"X", "ADA@home.example", "Ada Lind already has this address"},
		"taken by them": {"X", "una@new.example", "Una already has this address"},
	} {
		res := invent(c[0], c[1], "verified")
		require.Equal(t, http.StatusUnprocessableEntity, res.status, name)
		require.Contains(t, res.body, c[2], name)
		require.Contains(t, res.body, `role="alert"`, name)
	}
	res := s.do(t, "POST", authorizeQuery(), "login=nobody")
	require.Equal(t, http.StatusUnprocessableEntity, res.status)
	require.Contains(t, res.body, "not here any more")
}

func TestAvatars(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *Config) { c.People = append(c.People, people.Person{Login: "amp", Name: "& Äva Ü"}) })
	for login, initials := range map[string]string{"ada": "AL", "eve": "E", "amp": "ÄÜ", "gone": "G"} {
		res := s.do(t, "GET", "/avatars/"+login, "")
		require.Equal(t, http.StatusOK, res.status)
		require.Equal(t, "image/svg+xml", res.header.Get("Content-Type"))
		require.Equal(t, "cross-origin", res.header.Get("Cross-Origin-Resource-Policy"))
		require.Contains(t, res.body, ">"+initials+"</text>")
	}
	for _, login := range []string{"a%22b", "A", strings.Repeat("a", 40)} {
		require.Equal(t, http.StatusNotFound, s.do(t, "GET", "/avatars/"+login, "").status)
	}
}
