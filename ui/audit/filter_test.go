package audit

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/page"
)

func TestFilterKeepsUnknownTermsAsText(t *testing.T) {
	day := func(d int) time.Time { return time.Date(2026, 11, d, 0, 0, 0, 0, time.UTC) }
	f := parse(" actor:ada@acme.example action:member.* created:2026-11-14..2026-11-21 http://x maria actor: ")
	require.Equal(t, "ada@acme.example", f.actor)
	require.Equal(t, "member.*", f.action)
	require.Equal(t, "http://x maria actor:", f.text)
	require.Equal(t, day(14), f.from)
	require.Equal(t, day(22), f.to, "the last day is in it")
	require.Equal(t, "14 – 21 Nov 2026", f.period())
	require.Equal(t, "action:member.* created:2026-11-14..2026-11-21 http://x maria actor:", f.without(f.terms[0]))
	require.Equal(t, "actor:ada@acme.example action:member.* http://x maria actor: created:2026-11-02", f.withDays("2026-11-02", "2026-11-02"))

	f = parse("created:2026-11-14")
	require.Equal(t, []time.Time{day(14), day(15)}, []time.Time{f.from, f.to})
	f = parse("created:..2026-11-14")
	require.True(t, f.from.IsZero())
	require.Equal(t, "Until 14 Nov 2026", f.period())
	for _, wrong := range []string{"created:yesterday", "created:2026-11-31", "created:2026-11-21..2026-11-14"} {
		require.NotEmpty(t, parse(wrong).problem, wrong)
	}
	require.Equal(t, "a", parse("a a a").String(), "each once")

	f = parse(`actor:"Ada Lind" "two words" "" actor:service:ci-bot "open end`)
	require.Equal(t, []term{{byActor, "Ada Lind"}, {"", "two words"}, {byActor, "service:ci-bot"}, {"", "open end"}}, f.terms)
	require.Equal(t, `actor:"Ada Lind" "two words" actor:service:ci-bot "open end"`, f.String())
	require.Equal(t, f.terms, parse(f.String()).terms)
	require.True(t, f.terms[0].isActorName())
	require.False(t, f.terms[2].isActorName())
}

func TestNounStandsForItsActions(t *testing.T) {
	for typed, want := range map[string]string{
		"member": "member.*", "member.": "member.*", "member.joined": "member.joined", "mem*": "mem*", "member,run.merged": "member.*,run.merged",
	} {
		require.Equal(t, want, parse("action:"+typed).action, typed)
	}
}

// The bare page is of people and access, also by days; a search is of everything, unless the address says otherwise.
func TestSearchIsOfEverything(t *testing.T) {
	for query, want := range map[string]string{
		"": showPeople, "q=created:2026-11-14": showPeople, "q=maria": showAll, "q=action:job.*": showAll, "show=all": showAll,
		"q=maria&show=people": showPeople,
	} {
		r := httptest.NewRequest(http.MethodGet, "/w/acme/audit?"+query, nil)
		f := parseQuery(&page.Visit{Request: r})
		require.Equal(t, want, f.shown(), query)
		require.Equal(t, f.people, f.listParams().Category != nil, query)
		require.Equal(t, f.people, f.exportParams().Category != nil, query)
	}
}

func TestCompletions(t *testing.T) {
	for text, want := range map[string][2]string{
		"": {"", ""}, "act": {"", "act"}, "a b": {"a ", "b"}, `a actor:"Mia T`: {"a ", `actor:"Mia T`},
		"a ": {"a ", ""}, `"a b" c`: {`"a b" `, "c"},
	} {
		before, word := lastWord(text)
		require.Equal(t, want, [2]string{before, word}, text)
	}
	require.Equal(t, completion{"action:member.*", "All about members"}, actionsLike("member")[0])
	require.Contains(t, actionsLike("Signed"), completion{"action:user.signed_in", "Signed in"})
	require.Empty(t, actionsLike("no such thing"))
	for _, c := range actionsLike("") {
		require.NotEqual(t, "All about ", c.label, c.value)
	}
}
