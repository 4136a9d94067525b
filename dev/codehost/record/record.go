// Package record keeps the repositories of the code host, each with what it has besides git's objects.
package record

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Record is what the host keeps of a repository besides git's objects. It is a JSON file.
type Record struct {
	ID            int64     `json:"id"`
	Name          string    `json:"name"` // owner/name
	Description   string    `json:"description,omitempty"`
	Private       bool      `json:"private"`
	DefaultBranch string    `json:"defaultBranch"`
	Methods       []string  `json:"methods"` // of merging
	Writers       []string  `json:"writers"` // logins
	CreatedAt     time.Time `json:"createdAt"`
	PushedAt      time.Time `json:"pushedAt"`

	LastNumber int       `json:"lastNumber"` // of issues and pull requests
	LastID     int64     `json:"lastId"`     // of issues, comments, statuses
	Issues     []*Issue  `json:"issues"`     // and pull requests, by number
	Statuses   []*Status `json:"statuses"`
	Hooks      []*Hook   `json:"hooks,omitempty"`
}

// A Hook is an address that is told of changes.
type Hook struct {
	ID        int64     `json:"id"`
	URL       string    `json:"url"`
	Secret    string    `json:"secret"`
	Events    []string  `json:"events"`
	Active    bool      `json:"active"`
	CreatedAt time.Time `json:"createdAt"`
}

// An Issue is an issue, or a pull request if Pull is set.
type Issue struct {
	Number    int        `json:"number"`
	ID        int64      `json:"id"`
	Title     string     `json:"title"`
	Body      string     `json:"body"`
	Author    string     `json:"author"` // login, as everywhere
	Labels    []string   `json:"labels"`
	Closed    bool       `json:"closed"`
	Reason    string     `json:"reason,omitempty"` // why it was closed or reopened
	CreatedAt time.Time  `json:"createdAt"`
	UpdatedAt time.Time  `json:"updatedAt"`
	ClosedAt  *time.Time `json:"closedAt"`
	ClosedBy  string     `json:"closedBy,omitempty"`
	Comments  []*Comment `json:"comments"`
	Pull      *Pull      `json:"pull,omitempty"`

	Labelled []Labelled `json:"labelled,omitempty"` // the oldest first
}

// A Labelled says that somebody gave an issue a label.
type Labelled struct {
	ID    int64     `json:"id"`
	Label string    `json:"label"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
}

// A Comment is a comment of an issue or a pull request.
type Comment struct {
	ID        int64     `json:"id"`
	Author    string    `json:"author"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// A Pull is what a pull request has besides its issue. Head and Base are commits; after the end they
// stay what they were. Before is the head before the last push, or Head.
type Pull struct {
	ID          int64      `json:"id"`
	Branch      string     `json:"branch"`
	Into        string     `json:"into"`
	Head        string     `json:"head"`
	Before      string     `json:"before"`
	Base        string     `json:"base"`
	Draft       bool       `json:"draft"`
	MergedAt    *time.Time `json:"mergedAt"`
	MergedBy    string     `json:"mergedBy,omitempty"`
	MergeCommit string     `json:"mergeCommit,omitempty"`
}

// A Status is what somebody said of a commit. The newest of each context counts.
type Status struct {
	ID          int64     `json:"id"`
	Commit      string    `json:"commit"`
	State       string    `json:"state"`
	Context     string    `json:"context"`
	Description string    `json:"description"`
	TargetURL   string    `json:"targetUrl"`
	Author      string    `json:"author"`
	CreatedAt   time.Time `json:"createdAt"`
}

// NextID returns the next id of an issue, a comment or a status.
func (r *Record) NextID() int64 {
	r.LastID++
	return r.LastID
}

// Issue returns an issue or a pull request, or nil.
func (r *Record) Issue(number int) *Issue {
	i, ok := slices.BinarySearchFunc(r.Issues, number, func(i *Issue, n int) int { return cmp.Compare(i.Number, n) })
	if !ok {
		return nil
	}
	return r.Issues[i]
}

// Pull returns a pull request, or nil.
func (r *Record) Pull(number int) *Issue {
	if i := r.Issue(number); i != nil && i.Pull != nil {
		return i
	}
	return nil
}

// AddIssue adds an issue with the next number.
func (r *Record) AddIssue(author, title, body string, labels []string, now time.Time) *Issue {
	r.LastNumber++
	i := &Issue{
		Number: r.LastNumber, ID: r.NextID(), Title: title, Body: body, Author: author, Labels: []string{},
		CreatedAt: now, UpdatedAt: now, Comments: []*Comment{},
	}
	r.Label(i, author, labels, now)
	r.Issues = append(r.Issues, i)
	return i
}

// Label gives i these labels and no others.
func (r *Record) Label(i *Issue, by string, labels []string, now time.Time) {
	for _, label := range labels {
		if !slices.Contains(i.Labels, label) {
			i.Labelled = append(i.Labelled, Labelled{r.NextID(), label, by, now})
		}
	}
	i.Labels = append([]string{}, labels...)
}

// AddComment adds a comment to i.
func (r *Record) AddComment(i *Issue, author, body string, now time.Time) *Comment {
	c := &Comment{ID: r.NextID(), Author: author, Body: body, CreatedAt: now, UpdatedAt: now}
	i.Comments = append(i.Comments, c)
	i.UpdatedAt = now
	return c
}

// Comment returns a comment with its issue, or nils.
func (r *Record) Comment(id int64) (*Issue, *Comment) {
	for _, i := range r.Issues {
		for _, c := range i.Comments {
			if c.ID == id {
				return i, c
			}
		}
	}
	return nil, nil
}

// Close closes i for a reason.
func (i *Issue) Close(by, reason string, now time.Time) {
	i.Closed, i.Reason, i.ClosedAt, i.ClosedBy, i.UpdatedAt = true, reason, &now, by, now
}

// Reopen opens i again.
func (i *Issue) Reopen(now time.Time) {
	i.Closed, i.Reason, i.ClosedAt, i.ClosedBy, i.UpdatedAt = false, "reopened", nil, "", now
}

// State is open or closed.
func (i *Issue) State() string {
	if i.Closed {
		return "closed"
	}
	return "open"
}

// HasLabels reports whether i has all labels of a list that commas separate.
func (i *Issue) HasLabels(text string) bool {
	for name := range strings.SplitSeq(text, ",") {
		if name != "" && !slices.Contains(i.Labels, name) {
			return false
		}
	}
	return true
}

// StatusesOf returns the newest status of each context of a commit, the newest first.
func (r *Record) StatusesOf(commit string) (list []*Status) {
	seen := map[string]bool{}
	for _, s := range slices.Backward(r.Statuses) {
		if s.Commit == commit && !seen[s.Context] {
			seen[s.Context] = true
			list = append(list, s)
		}
	}
	return list
}

// Combined is the state of all statuses.
func Combined(list []*Status) string {
	is := func(states ...string) bool {
		return slices.ContainsFunc(list, func(s *Status) bool { return slices.Contains(states, s.State) })
	}
	switch {
	case is("failure", "error"):
		return "failure"
	case len(list) == 0 || is("pending"):
		return "pending"
	}
	return "success"
}
