package codehost

import (
	"net/http"
	"slices"
	"strings"
)

// A search is a query of GET /search/issues. Text is lower-case; all of it must be in title or body.
type search struct {
	repos, labels, authors []string
	text                   []string
	kind, state            string
	in                     []string // title, body
}

// parseSearch parses what this host knows of GitHub's syntax.
func parseSearch(query string) (s search) {
	for _, word := range searchWords(query) {
		name, value, qualified := strings.Cut(word, ":")
		value = strings.Trim(value, `"`)
		switch {
		case !qualified || value == "":
			s.text = append(s.text, strings.ToLower(strings.Trim(word, `"`)))
		case name == "repo":
			s.repos = append(s.repos, strings.ToLower(value))
		case name == "label":
			s.labels = append(s.labels, value)
		case name == "author":
			s.authors = append(s.authors, value)
		case name == "in":
			s.in = append(s.in, strings.Split(value, ",")...)
		case name == "state" || name == "is" && (value == "open" || value == "closed"):
			s.state = value
		case name == "type" || name == "is" && (value == "issue" || value == "pr"):
			s.kind = value
		case name == "is" || name == "sort" || name == "archived":
		default:
			s.text = append(s.text, strings.ToLower(word))
		}
	}
	return s
}

// searchWords splits at spaces outside of quotes.
func searchWords(query string) []string {
	quoted := false
	return strings.FieldsFunc(query, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

func (s search) matches(i *issue) bool {
	switch {
	case s.kind == "issue" && i.Pull != nil, s.kind == "pr" && i.Pull == nil:
		return false
	case s.state != "" && s.state != i.state():
		return false
	case len(s.authors) > 0 && !slices.Contains(s.authors, i.Author):
		return false
	}
	for _, name := range s.labels {
		if !slices.Contains(i.Labels, name) {
			return false
		}
	}
	where := ""
	for name, text := range map[string]string{"title": i.Title, "body": i.Body} {
		if len(s.in) == 0 || slices.Contains(s.in, name) {
			where += "\n" + strings.ToLower(text)
		}
	}
	for _, word := range s.text {
		if !strings.Contains(where, word) {
			return false
		}
	}
	return true
}

func searchIssues(v *visit) (int, any, error) {
	text := v.URL.Query().Get("q")
	if text == "" {
		return 0, nil, invalid("Search", "q", "missing", "")
	}
	v.head.Set("X-RateLimit-Resource", "search")
	s, items := parseSearch(text), []object{}
	for _, r := range v.h.repositories.all() {
		if found := v.searchIn(r, s); found != nil {
			items = append(items, found...)
		}
	}
	if len(items) == 0 && len(s.repos) == 1 {
		if r, known := v.h.repositories.find(s.repos[0]); !known || !v.maySee(r) {
			return 0, nil, invalid("Search", "q", "invalid", "The listed users and repositories cannot be searched "+
				"either because the resources do not exist or you do not have permission to view them.")
		}
	}
	return http.StatusOK, object{
		"total_count": len(items), "incomplete_results": false, "search_type": "lexical", "items": paged(v, items),
	}, nil
}

// maySee is mayRead of a repository that is not locked.
func (v *visit) maySee(r *repository) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return v.who.mayRead(r)
}

func (v *visit) searchIn(r *repository, s search) (items []object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !v.who.mayRead(r) || len(s.repos) > 0 && !slices.Contains(s.repos, r.Name) {
		return nil
	}
	v.repo = r
	defer func() { v.repo = nil }()
	for _, i := range slices.Backward(r.Issues) {
		if s.matches(i) {
			item := v.issue(i)
			item["score"] = 1.0
			items = append(items, item)
		}
	}
	return items
}
