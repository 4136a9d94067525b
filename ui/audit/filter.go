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
	"svc/ui/kit"
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

// isActorName reports whether the term names an actor by a person's name. The log has
// addresses, ids, and names such as service:ci-bot.
func (t term) isActorName() bool {
	return t.key == byActor && !strings.ContainsAny(t.value, "@:") && kit.SystemActors[t.value] == ""
}

// Qualifiers, in the order in which they are offered.
const (
	byActor   = "actor"
	byAction  = "action"
	byTarget  = "target"
	byCreated = "created"
)

// A filter is a search of the log, as parsed from ?q.
type filter struct {
	terms []term

	actor, action, target, text string
	people                      bool      // only records of people and access
	from, to                    time.Time // to is exclusive
	firstDay, lastDay           string    // values of date inputs, 2006-01-02
	problem                     string    // why the search is invalid; "" if it is valid
}

const maxTerms = 20

// splitWords splits text at spaces outside of double quotes, and removes the quotes.
func splitWords(text string) []string {
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
	for _, word := range splitWords(text) {
		if word == "" {
			continue
		}
		t := term{value: word}
		if key, value, ok := strings.Cut(word, ":"); ok && value != "" &&
			slices.Contains([]string{byActor, byAction, byTarget, byCreated}, key) {
			if t = (term{key, value}); key == byAction {
				t.value = completeActions(value)
			}
		}
		if !slices.Contains(f.terms, t) && len(f.terms) < maxTerms {
			f.terms = append(f.terms, t)
		}
	}
	f.setFields()
	return f
}

// completeActions completes the names of nouns: "member" means "member.*".
func completeActions(value string) string {
	list := strings.Split(value, ",")
	for i, action := range list {
		if action != "" && !strings.ContainsAny(action, ".*") {
			list[i] = action + ".*"
		} else if strings.HasSuffix(action, ".") {
			list[i] = action + "*"
		}
	}
	return strings.Join(list, ",")
}

// setFields sets the other fields from the terms.
func (f *filter) setFields() {
	f.actor, f.action, f.target = f.joinValues(byActor, ","), f.joinValues(byAction, ","), f.joinValues(byTarget, ",")
	f.text = f.joinValues("", " ")
	f.parseDays(f.joinValues(byCreated, ","))
}

// Values of ?show. Without it, the page shows people and access until somebody searches for more than days.
const (
	showPeople = "people"
	showAll    = "all"
)

// parseQuery returns the search in the page's address.
func parseQuery(v *page.Visit) filter {
	f := parse(v.Query("q"))
	switch v.Query("show") {
	case showPeople:
		f.people = true
	case showAll:
	default:
		f.people = !slices.ContainsFunc(f.terms, func(t term) bool { return t.key != byCreated })
	}
	return f
}

// shown returns the value of ?show that is in force.
func (f filter) shown() string {
	if f.people {
		return showPeople
	}
	return showAll
}

// selectsAll reports whether all records of the log match.
func (f filter) selectsAll() bool { return len(f.terms) == 0 && !f.people }

// joinValues joins the values of a qualifier's terms.
func (f filter) joinValues(key, separator string) string {
	var list []string
	for _, t := range f.terms {
		if t.key == key {
			list = append(list, t.value)
		}
	}
	return strings.Join(list, separator)
}

const invalidDays = "created: takes a day or two of them, such as created:2026-11-14..2026-11-21."

// parseDays parses the value of created:, a day or a range of days that includes both ends.
func (f *filter) parseDays(value string) {
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
			f.problem = invalidDays
		}
	}
	if last != "" {
		if f.to, err = time.Parse(time.DateOnly, last); err != nil {
			f.problem = invalidDays
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

// String returns the search as a person would type it.
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

// withDays returns the search with the given days instead of its own; two empty days remove them.
func (f filter) withDays(first, last string) string {
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

// period describes the days of the search.
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

// listParams returns the parameters of a list request.
func (f filter) listParams() *client.ListAuditParams {
	params := &client.ListAuditParams{
		Actor: client.Optional(f.actor), Action: client.Optional(f.action), Target: client.Optional(f.target), Q: client.Optional(f.text),
		From: client.Optional(f.from), To: client.Optional(f.to),
	}
	if f.people {
		params.Category = client.Optional(client.ListAuditParamsCategoryPeople)
	}
	return params
}

// exportParams returns the parameters of an export request.
func (f filter) exportParams() *client.ExportAuditParams {
	params := &client.ExportAuditParams{
		Actor: client.Optional(f.actor), Action: client.Optional(f.action), Target: client.Optional(f.target), Q: client.Optional(f.text),
		From: client.Optional(f.from), To: client.Optional(f.to),
	}
	if f.people {
		params.Category = client.Optional(client.ExportAuditParamsCategoryPeople)
	}
	return params
}

// searchPath returns the address of the page with a search.
func searchPath(v *page.Visit, q string) string { return searchPathShowing(v, q, v.Query("show")) }

// searchPathShowing returns the address of the page with a search and a value of ?show.
func searchPathShowing(v *page.Visit, q, show string) string {
	query := url.Values{}
	if q != "" {
		query.Set("q", q)
	}
	if show != "" {
		query.Set("show", show)
	}
	if len(query) == 0 {
		return v.Path("audit")
	}
	return v.Path("audit") + "?" + query.Encode()
}

// filterFromQuery returns the search in the page's address. If a form has added a term or
// days, or a term names an actor by name, the error is a redirect to the complete search.
func filterFromQuery(v *page.Visit) (filter, error) {
	f := parseQuery(v)
	form := v.URL.Query()
	switch {
	case form.Has("add"):
		return f, page.Redirect(searchPath(v, strings.TrimSpace(f.String()+" "+v.Query("add"))))
	case form.Has("from") || form.Has("to"):
		return f, page.Redirect(searchPath(v, f.withDays(v.Query("from"), v.Query("to"))))
	case slices.ContainsFunc(f.terms, term.isActorName):
		return f, resolveActorNames(v, f)
	}
	return f, nil
}

const maxNamesakes = 10 // members with the same name; a search may have as many actors

// resolveActorNames returns a redirect to the search with members' addresses in place of
// their names, or nil if no name is a member's. Other names stay: runners have such names.
func resolveActorNames(v *page.Visit, f filter) error {
	var list []term
	for _, t := range f.terms {
		found := []term{t}
		if t.isActorName() {
			members, err := client.Decode[client.MemberList](v.API.ListMembers(v.Context(), &client.ListMembersParams{
				Q: &t.value, Limit: client.Optional(int64(maxNamesakes)),
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
	return page.Redirect(searchPath(v, f.String()))
}

// newEventsQuery returns the query of the request that counts new events.
func newEventsQuery(v *page.Visit, d pageData) string {
	after := v.Workspace.Seq
	if len(d.list.Items) > 0 {
		after = max(after, d.list.Items[0].Seq)
	}
	return url.Values{"q": {d.filter.String()}, "show": {d.filter.shown()}, "after": {strconv.FormatInt(after, 10)}}.Encode()
}

func verifyPath(v *page.Visit, f filter) string {
	return v.Path("audit", "verify") + "?" + url.Values{"q": {f.String()}, "show": {f.shown()}}.Encode()
}
