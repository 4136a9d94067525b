package audit

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// A completion is what a person may mean by the word at the end of the search field. value is the
// whole field with it.
type completion struct{ value, label string }

// qualifiers are the completions of an empty word.
var qualifiers = []completion{
	{byActor + ":", "Who did it"},
	{byAction + ":", "What was done"},
	{byTarget + ":", "Whom or what it was done to"},
	{byCreated + ":", "On a day, or from one day to another"},
}

const maxCompletions = 12

// complete answers with completions of the search field's last word.
func complete(v *page.Visit) (page.Page, error) {
	before, word := lastWord(v.URL.Query().Get("add"))
	key, value, qualified := strings.Cut(word, ":")
	value = strings.TrimPrefix(value, `"`)
	var list []completion
	var err error
	switch {
	case qualified && key == byAction:
		list = actionsLike(value)
	case qualified && key == byCreated:
		list = daysBefore(v.Now)
	case qualified && (key == byActor || key == byTarget):
		list, err = findNamed(v, key, value)
	case qualified:
	default:
		for _, q := range qualifiers {
			if strings.HasPrefix(q.value, word) {
				list = append(list, q)
			}
		}
		if word != "" {
			list = append(list, actionsLike(word)...)
		}
	}
	list = list[:min(len(list), maxCompletions)]
	for i := range list {
		list[i].value = before + list[i].value
	}
	return page.Page{Part: completions(list)}, err
}

// lastWord splits text before its last word, which may be an unfinished quotation.
func lastWord(text string) (before, word string) {
	end := len(text)
	if strings.Count(text, `"`)%2 == 1 {
		end = strings.LastIndex(text, `"`)
	}
	begin := strings.LastIndexFunc(text[:end], unicode.IsSpace) + 1
	return text[:begin], text[begin:]
}

// actionsLike returns the nouns and kinds of events whose name or sentence contains text, nouns first.
func actionsLike(text string) (list []completion) {
	text = strings.ToLower(strings.TrimSuffix(text, "*"))
	nouns := map[string]int{}
	var kinds []completion
	for _, kind := range slices.Sorted(maps.Keys(sentences)) {
		noun, _, _ := strings.Cut(kind, ".")
		if nouns[noun]++; strings.Contains(kind, text) || strings.Contains(strings.ToLower(sentences[kind][0]), text) {
			kinds = append(kinds, completion{byAction + ":" + kind, sentences[kind][0]})
		}
	}
	for _, noun := range slices.Sorted(maps.Keys(nouns)) {
		if strings.Contains(noun+".", text) && nouns[noun] > 1 {
			list = append(list, completion{byAction + ":" + noun + ".*", "All about " + nounsInWords[noun]})
		}
	}
	return append(list, kinds...)
}

// nounsInWords are the first parts of actions.
var nounsInWords = map[string]string{
	"authority": "the farm’s certificate authorities", "command": "refused requests", "decision": "decisions",
	"enrollment": "enroll commands", "farm_secret": "secrets of the farm", "invitation": "invitations", "issue": "issues",
	"job": "jobs", "member": "members",
	"repo": "repositories", "run": "runs", "runner": "runners", "service_account": "service accounts", "user": "sign-ins and accounts",
	"workspace": "the workspace",
}

// daysBefore returns today and periods that end today.
func daysBefore(now time.Time) []completion {
	day := func(ago int) string { return now.UTC().AddDate(0, 0, -ago).Format(time.DateOnly) }
	return []completion{
		{byCreated + ":" + day(0), "Today, in UTC"},
		{byCreated + ":" + day(1), "Yesterday"},
		{byCreated + ":" + day(6) + "..", "The last 7 days"},
		{byCreated + ":" + day(29) + "..", "The last 30 days"},
	}
}

// findNamed returns the people and things of a workspace that can be an actor or a target.
func findNamed(v *page.Visit, key, text string) (list []completion, err error) {
	add := func(name, label string) { list = append(list, completion{term{key, name}.String(), label}) }
	if text == "" {
		found, err := client.Decode[client.MemberList](v.API.ListMembers(v.Context(), &client.ListMembersParams{
			Limit: client.Optional(int64(maxCompletions)),
		}))
		for _, m := range found.Items {
			add(m.Email, m.Name)
		}
		return list, err
	}
	service, isService := strings.CutPrefix(text, "service:")
	q := []rune(service)
	found := client.SearchFound{}
	if len(q) > 0 {
		found, err = client.Decode[client.SearchFound](v.API.Search(v.Context(), &client.SearchParams{
			Q: string(q[:min(len(q), maxSearched)]), Limit: client.Optional(int64(maxCompletions)),
		}))
	}
	if !isService {
		for _, m := range found.Members {
			add(m.Email, m.Name)
		}
	}
	for _, a := range found.ServiceAccounts {
		add("service:"+a.Name, "Service account, "+string(a.Status))
	}
	for _, r := range found.Runners {
		add(r.Name, "Runner")
	}
	if key == byTarget {
		for _, r := range found.Runs {
			add(r.Repo.Name+"#"+kit.Digits(r.IssueNumber), r.IssueTitle)
		}
		return list, err
	}
	for _, name := range slices.Sorted(maps.Keys(kit.SystemActors)) {
		if strings.HasPrefix(name, text) {
			add(name, kit.SystemActors[name])
		}
	}
	return list, err
}

// maxSearched is the service's limit of a search's letters.
const maxSearched = 200
