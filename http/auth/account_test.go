package auth_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/sessions"
)

// user returns the person that the browser is signed in as.
func (b *browser) user() events.ID {
	b.site.t.Helper()
	session := b.session()
	require.NotNil(b.site.t, session)
	id, err := events.ParseID(session["user"]["id"].(string))
	require.NoError(b.site.t, err)
	return id
}

// emails returns a person's addresses, the primary one first.
func (s *site) emails(user events.ID) []string {
	s.t.Helper()
	var first string
	var all []string
	db := s.config.Sessions.DB
	require.NoError(s.t, db.QueryRow(s.t.Context(), `select email, emails from users where user_id = $1`, user).Scan(&first, &all))
	require.Equal(s.t, all[0], first)
	return all
}

// signInAs signs an account in, in a new browser.
func (s *site) signInAs(h *host, who account) *browser {
	s.t.Helper()
	h.setPerson(who)
	b := s.browser()
	b.signIn(h).requireSentTo("/")
	return b
}

func TestSignInStoresVerifiedAddresses(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	many := func(n, primary int) (list []address) {
		for i := range n {
			list = append(list, address{fmt.Sprintf("many-%03d@acme.example", i), i == primary, true})
		}
		return list
	}
	for i, c := range []struct {
		what  string
		given []address
		want  []string
	}{
		{"the primary one first", ada.Emails, []string{"ada@acme.example", "ada@home.example"}},
		{"none is primary", []address{{"b@x.example", false, true}, {"a@x.example", false, true}}, []string{"b@x.example", "a@x.example"}},
		{"the primary one is not verified", []address{{"c@x.example", true, false}, {"d@x.example", false, true}}, []string{"d@x.example"}},
		{"one comes twice", []address{{"E@x.example", false, true}, {"f@x.example", false, true}, {"e@X.example", true, true}},
			[]string{"e@x.example", "f@x.example"}},
		{"one is no address", []address{{"nobody", true, true}, {"g@x.example", false, true}}, []string{"g@x.example"}},
		{"some look like others",
			[]address{{"ZOe@acme.examp\u217Ce", true, true}, {"zo\u00e9@acme.example", false, true}, {"h@x.example", false, true}},
			[]string{"h@x.example"}},
		{"a domain in another script", []address{{"I@Bücher.example", true, true}, {"i@xn--bcher-kva.example", false, true}},
			[]string{"i@xn--bcher-kva.example"}},
	} {
		b := s.signInAs(h, account{ID: int64(i + 1), Login: "ada", Emails: c.given})
		require.Equal(t, c.want, s.emails(b.user()), c.what)
	}

	b := s.signInAs(h, account{ID: 100, Login: "many", Emails: many(250, 200)})
	stored := s.emails(b.user())
	require.Len(t, stored, 100)
	require.Equal(t, "many-200@acme.example", stored[0], "the primary one is stored wherever it is in the list")
	require.Equal(t, "many-000@acme.example", stored[1])
}

func TestSignInUpdatesChangedAddresses(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	user := s.signInAs(h, ada.with("ada@acme.example", "ada@home.example")).user()

	b := s.signInAs(h, ada.with("ada@new.example", "ada@acme.example"))
	require.Equal(t, user, b.user())
	require.Equal(t, []string{"ada@new.example", "ada@acme.example"}, s.emails(user))
	require.Equal(t, "ada@new.example", b.session()["user"]["email"])

	require.Equal(t, []string{"Ada Lind ada@new.example"}, s.queryTexts(`select name || ' ' || email from members where user_id = $1`, user))
	require.Len(t, s.queryTexts(`select kind from events where kind = 'member.profile_changed' and $1::uuid is not null`, user), 1)
	s.signInAs(h, ada.with("ada@new.example", "ada@acme.example"))
	require.Len(t, s.queryTexts(`select kind from events where kind = 'member.profile_changed' and $1::uuid is not null`, user), 1,
		"which is no news")
	// as of a member who joined at a build before
	_, err := s.config.Sessions.DB.Exec(t.Context(), `update members set name = '' where user_id = $1`, user)
	require.NoError(t, err)
	s.signInAs(h, ada.with("ada@new.example", "ada@acme.example"))
	require.Equal(t, []string{"Ada Lind ada@new.example"}, s.queryTexts(`select name || ' ' || email from members where user_id = $1`, user))

	other := account{ID: 2, Login: "bo"}.with("ada@home.example")
	require.NotEqual(t, user, s.signInAs(h, other).user(), "an address that was given up is free")

	renamed := ada.with("ada@new.example")
	renamed.Login = "lovelace"
	require.Equal(t, user, s.signInAs(h, renamed).user(), "the id at the provider counts, not the login")

	h.setPerson(ada.with())
	before := s.tally()
	again := s.browser()
	again.signIn(h).requireSentBack(s.errorPage(), reason("email_not_found"))
	require.Nil(t, again.session())
	require.Equal(t, before, s.tally())
	require.Equal(t, []string{"ada@new.example"}, s.emails(user), "nobody is left without an address")
}

// A verified address links the account to the person who has it, because addresses here are
// verified too.
func TestVerifiedAddressLinksAccount(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	before := s.count("users")
	zoe := account{ID: 7, Login: "zoe"}.with("zoe@home.example", email)
	b := s.browser()
	h.setPerson(zoe)
	b.signIn(h, "callbackURL", "/inbox", "newUserCallbackURL", "/welcome").requireSentTo("/inbox")

	require.Equal(t, s.person, b.user())
	require.Equal(t, before, s.count("users"))
	require.Equal(t, []string{"zoe@home.example", email}, s.emails(s.person))
	require.Equal(t, "github/"+h.URL+"/7", b.list("/list-accounts")[0]["id"])
	require.NotNil(t, s.session(s.signIn()), "the password still counts")

	require.Equal(t, s.person, s.signInAs(h, zoe.with("zoe@other.example")).user(), "from now on by the account")
}

func TestUnverifiedAddressDoesNotLink(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	eve := account{ID: 666, Login: "eve", Emails: []address{{email, true, false}, {"eve@evil.example", false, true}}}
	b := s.signInAs(h, eve)
	require.NotEqual(t, s.person, b.user())
	require.Equal(t, []string{"eve@evil.example"}, s.emails(b.user()))
	require.Equal(t, []string{email}, s.emails(s.person))
}

func TestAccountTakesPrecedenceOverAddress(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	bo := account{ID: 2, Login: "bo"}.with("bo@acme.example")
	user := s.signInAs(h, bo).user()

	b := s.signInAs(h, bo.with("bo@acme.example", email))
	require.Equal(t, user, b.user(), "the account comes before any address")
	require.Equal(t, []string{"bo@acme.example"}, s.emails(user), "what another person holds stays theirs")

	b = s.signInAs(h, bo.with(email))
	require.Equal(t, user, b.user())
	require.Equal(t, []string{"bo@acme.example"}, s.emails(user))

	b = s.signInAs(h, account{ID: 3, Login: "cy"}.with(email, "bo@acme.example"))
	require.Equal(t, s.person, b.user(), "the primary address comes before the others")
	require.Equal(t, []string{email}, s.emails(s.person))
}

// Eight concurrent first sign-ins register one person.
func TestConcurrentFirstSignIns(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	people, workspaces := s.count("users"), s.count("workspaces")
	const n = 8
	var browsers [n]*browser
	var answers [n]answer
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		browsers[i] = s.browser()
		query := h.approve(browsers[i].begin("github", "callbackURL", "/inbox", "newUserCallbackURL", "/welcome"))
		all.Go(func() {
			<-begin
			answers[i] = browsers[i].back("github", query)
		})
	}
	close(begin)
	all.Wait()

	welcomed := 0
	for i, b := range browsers {
		where := answers[i].Header.Get("Location")
		answers[i].requireSentTo(where)
		require.Contains(t, []string{"/inbox", "/welcome"}, where)
		if where == "/welcome" {
			welcomed++
		}
		require.Equal(t, browsers[0].user(), b.user())
	}
	require.Equal(t, 1, welcomed)
	require.Equal(t, people+1, s.count("users"))
	require.Equal(t, workspaces+1, s.count("workspaces"))
	require.Len(t, browsers[0].list("/list-accounts"), 1)
	require.Equal(t, 1, s.count("provider_tokens"))
}

func TestListAccountsReturnsOwnOnly(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withTwoProviders(h))
	b := s.signInAs(h, ada)
	require.Empty(t, s.with(s.signIn()).list("/list-accounts"))
	s.do(call{path: "/list-accounts"}).requireRefused(401, "UNAUTHORIZED")

	other := s.browser()
	other.back("gitea", h.approve(other.begin("gitea"))).requireSentTo("/")
	require.Equal(t, b.user(), other.user(), "two providers, one verified address")
	ids := []any{}
	for _, a := range b.list("/list-accounts") {
		ids = append(ids, a["id"])
	}
	require.ElementsMatch(t, []any{"github/" + h.URL + "/4711", "gitea/" + h.URL + "/4711"}, ids)
}

// An address that now belongs to somebody else at the provider does not sign them in as its former
// owner.
func TestReassignedEmailDoesNotSignIn(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	s.signInAs(h, ada)
	another := ada
	another.ID++
	h.setPerson(another)
	b := s.browser()
	b.signIn(h).requireSentBack(s.config.Origin+"/api/auth/error", url.Values{"error": {"account_not_linked"}})
	require.Nil(t, b.session())
}

// with returns a browser with a cookie.
func (s *site) with(c *http.Cookie) *browser {
	b := s.browser()
	b.plant(c.Name, c.Value)
	return b
}

func TestSameLoginGetsNumberedSlug(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	for i, want := range []string{"zoe-2", "zoe-3", "zoe-4"} { // the site's own person has "zoe"
		b := s.signInAs(h, account{ID: int64(i + 1), Login: "Zoe"}.with(fmt.Sprintf("zoe%d@other.example", i)))
		require.Equal(t, want, b.list("/organization/list")[0]["slug"])
	}
}

// queryTexts returns the texts that a query about a person selects.
func (s *site) queryTexts(sql string, user events.ID) []string {
	s.t.Helper()
	rows, _ := s.config.Sessions.DB.Query(s.t.Context(), sql, user)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return list
}

// Somebody who loses an address while the body of their request is awaited does not accept its invitation.
func TestAddressIsCheckedAgainAfterWait(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h), withSlots(8))
	bob := s.signInAs(h, account{ID: 2, Login: "bob"}.with("bob@acme.example"))
	invited := s.do(call{path: "/organization/invite-member", cookie: s.signIn(),
		body: `{"email":"bob@acme.example","role":"viewer","organizationId":"` + s.home.String() + `"}`})
	require.Equal(t, http.StatusOK, invited.StatusCode, invited.text)
	var invitation struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(invited.text), &invitation))

	site, err := url.Parse(s.url)
	require.NoError(t, err)
	body := `{"invitationId":"` + invitation.ID + `"}`
	conn, err := net.Dial("tcp", site.Host)
	require.NoError(t, err)
	defer conn.Close()
	cookie := bob.http.Jar.Cookies(site)[0]
	_, err = fmt.Fprintf(conn, "POST /api/auth/organization/accept-invitation HTTP/1.1\r\nHost: %s\r\nCookie: %s=%s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", site.Host, cookie.Name, cookie.Value, len(body))
	require.NoError(t, err)
	require.Eventually(t, func() bool { held, _, _ := s.config.Bodies.Usage(); return held == 1 }, time.Minute, time.Millisecond)
	s.signInAs(h, account{ID: 2, Login: "bob"}.with("bob@home.example"))
	s.advance(sessions.FreshFor)
	_, err = io.WriteString(conn, body)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, answer.StatusCode, string(text))
	require.Contains(t, string(text), "YOU_ARE_NOT_THE_RECIPIENT_OF_THE_INVITATION")
}

// Somebody who gives themselves another person's address by SQL answers none of that person's invitations.
func TestAddressesOfInviteesAreThoseOfTheLog(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	s := newSite(t, withProvider(h))
	mallory := s.signInAs(h, account{ID: 2, Login: "mallory"}.with("mallory@evil.example"))
	invited := s.do(call{path: "/organization/invite-member", cookie: s.signIn(),
		body: `{"email":"bob@acme.example","role":"owner","organizationId":"` + s.home.String() + `"}`})
	require.Equal(t, http.StatusOK, invited.StatusCode, invited.text)
	var invitation struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(invited.text), &invitation))
	s.exec(`update users set emails = '{mallory@evil.example, bob@acme.example}' where user_id = $1`, mallory.user())
	for _, path := range []string{"/organization/accept-invitation", "/organization/reject-invitation"} {
		a := mallory.do(call{path: path, body: `{"invitationId":"` + invitation.ID + `"}`})
		a.requireRefused(http.StatusForbidden, "YOU_ARE_NOT_THE_RECIPIENT_OF_THE_INVITATION")
	}
}
