package audit

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"svc/ui/client"
	"svc/ui/page"
)

// A term is a word of a search: a qualifier with its value, or text.
type term struct{ key, value string }

func (t term) String() string {
	value := t.value
	if strings.ContainsFunc(value, unicode.IsSpace) {
		value = `"` + value + `"`
	}
	if t.key == "" {
		return value
	}
	return t.key + ":" + value
}

// isName reports whether the term has a person's name for an actor, where the log has
// addresses, ids, and names such as service:ci-bot.
func (t term) isName() bool {
	return t.key == byActor && !strings.ContainsAny(t.value, "@:") && machines[t.value] == ""
}

// Qualifiers, in the order in which they are offered.
const (
	byActor   = "actor"
	byAction  = "action"
	byTarget  = "target"
	byCreated = "created"
)

// A filter is what the page shows of the log, as it is written in ?q.
type filter struct {
	terms []term

	actor, action, target, text string
	from, to                    time.Time // to is exclusive
	firstDay, lastDay           string    // as fields of dates have them
	problem                     string    // what is wrong with it; "" if nothing is
}

const maxTerms = 20

// words are what spaces separate; between quotes, which are left out, they do not.
func words(text string) []string {
	quoted := false
	list := strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && unicode.IsSpace(r)
	})
	for i, word := range list {
		list[i] = strings.ReplaceAll(word, `"`, "")
	}
	return list
}

// parse reads a search such as "actor:ada@acme.example action:member.* created:2026-11-14..2026-11-21 maria".
func parse(text string) (f filter) {
	for _, word := range words(text) {
		if word == "" {
			continue
		}
		t := term{value: word}
		if key, value, ok := strings.Cut(word, ":"); ok && value != "" &&
			slices.Contains([]string{byActor, byAction, byTarget, byCreated}, key) {
			t = term{key, value}
		}
		if !slices.Contains(f.terms, t) && len(f.terms) < maxTerms {
			f.terms = append(f.terms, t)
		}
	}
	f.join()
	return f
}

// join makes the filter of the terms.
func (f *filter) join() {
	f.actor, f.action, f.target, f.text = f.all(byActor, ","), f.all(byAction, ","), f.all(byTarget, ","), f.all("", " ")
	f.days(f.all(byCreated, ","))
}

// all joins the values of a qualifier.
func (f filter) all(key, between string) string {
	var list []string
	for _, t := range f.terms {
		if t.key == key {
			list = append(list, t.value)
		}
	}
	return strings.Join(list, between)
}

const notDays = "created: takes a day or two of them, such as created:2026-11-14..2026-11-21."

// days reads created:, whose both days are in it.
func (f *filter) days(value string) {
	if value == "" {
		return
	}
	first, last, ok := strings.Cut(value, "..")
	if !ok {
		last = first
	}
	var err error
	if first != "" {
		if f.from, err = time.Parse(time.DateOnly, first); err != nil {
			f.problem = notDays
		}
	}
	if last != "" {
		if f.to, err = time.Parse(time.DateOnly, last); err != nil {
			f.problem = notDays
		}
		f.to = f.to.AddDate(0, 0, 1)
	}
	if f.problem == "" && first != "" && last != "" && !f.to.After(f.from) {
		f.problem = "created: ends before it begins."
	}
	if f.problem == "" {
		f.firstDay, f.lastDay = first, last
	}
}

// String returns the search as it is written.
func (f filter) String() string {
	words := make([]string, len(f.terms))
	for i, t := range f.terms {
		words[i] = t.String()
	}
	return strings.Join(words, " ")
}

// without returns the search without a term.
func (f filter) without(t term) string {
	f.terms = slices.DeleteFunc(slices.Clone(f.terms), func(other term) bool { return other == t })
	return f.String()
}

// between returns the search with other days; none if both are empty.
func (f filter) between(first, last string) string {
	f.terms = slices.DeleteFunc(slices.Clone(f.terms), func(other term) bool { return other.key == byCreated })
	switch {
	case first == "" && last == "":
	case first == last:
		f.terms = append(f.terms, term{byCreated, first})
	default:
		f.terms = append(f.terms, term{byCreated, first + ".." + last})
	}
	return f.String()
}

// period says which days are shown.
func (f filter) period() string {
	const day = "2 Jan 2006"
	last := f.to.AddDate(0, 0, -1)
	switch {
	case f.problem != "" || f.from.IsZero() && f.to.IsZero():
		return "All days"
	case f.to.IsZero():
		return "Since " + f.from.Format(day)
	case f.from.IsZero():
		return "Until " + last.Format(day)
	case f.from.Equal(last):
		return f.from.Format(day)
	case f.from.Year() == last.Year() && f.from.Month() == last.Month():
		return f.from.Format("2") + " – " + last.Format(day)
	}
	return f.from.Format(day) + " – " + last.Format(day)
}

// list returns what the service is asked for.
func (f filter) list() *client.ListAuditParams {
	return &client.ListAuditParams{
		Actor: client.Optional(f.actor), Action: client.Optional(f.action), Target: client.Optional(f.target), Q: client.Optional(f.text),
		From: client.Optional(f.from), To: client.Optional(f.to),
	}
}

// export returns the same of an export.
func (f filter) export() *client.ExportAuditParams {
	return &client.ExportAuditParams{
		Actor: client.Optional(f.actor), Action: client.Optional(f.action), Target: client.Optional(f.target), Q: client.Optional(f.text),
		From: client.Optional(f.from), To: client.Optional(f.to),
	}
}

// search returns the address of the page with a search.
func search(v *page.Visit, q string) string {
	if q == "" {
		return v.Path("audit")
	}
	return v.Path("audit") + "?q=" + url.QueryEscape(q)
}

// asked returns the search of the address. What forms add to it is joined, and the
// address that has it as a whole returned as an error.
func asked(v *page.Visit) (filter, error) {
	f := parse(v.Query("q"))
	form := v.URL.Query()
	switch {
	case form.Has("add"):
		return f, page.Redirect(search(v, strings.TrimSpace(f.String()+" "+v.Query("add"))))
	case form.Has("from") || form.Has("to"):
		return f, page.Redirect(search(v, f.between(v.Query("from"), v.Query("to"))))
	case slices.ContainsFunc(f.terms, term.isName):
		return f, addressed(v, f)
	}
	return f, nil
}

const maxCalled = 10 // members of one name: so many actors a search may have

// addressed leads to the search that has the addresses of members where f has names. A
// name that no member has stays: runners have such names.
func addressed(v *page.Visit, f filter) error {
	var list []term
	for _, t := range f.terms {
		found := []term{t}
		if t.isName() {
			members, err := client.Read[client.MemberList](v.API.ListMembers(v.Context(), &client.ListMembersParams{
				Q: &t.value, Limit: client.Optional(int64(maxCalled)),
			}))
			if r := client.AsRefused(err); err != nil && (r == nil || r.Status != http.StatusUnprocessableEntity) {
				return err
			}
			if len(members.Items) > 0 {
				found = nil
			}
			for _, m := range members.Items {
				found = append(found, term{byActor, m.Email})
			}
		}
		list = append(list, found...)
	}
	if slices.Equal(list, f.terms) {
		return nil
	}
	f.terms = list
	return page.Redirect(search(v, f.String()))
}

// newsQuery is what the count of new events is asked with.
func newsQuery(v *page.Visit, d data) string {
	after := v.Workspace.Seq
	if len(d.list.Items) > 0 {
		after = max(after, d.list.Items[0].Seq)
	}
	return url.Values{"q": {d.filter.String()}, "after": {strconv.FormatInt(after, 10)}}.Encode()
}

func verifyPath(v *page.Visit, f filter) string {
	return v.Path("audit", "verify") + "?" + url.Values{"q": {f.String()}}.Encode()
}
