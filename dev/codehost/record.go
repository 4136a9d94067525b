package codehost

import (
	"cmp"
	"slices"
	"time"
)

// A record is what the host keeps of a repository besides git's objects. It is a JSON file.
type record struct {
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
	Issues     []*issue  `json:"issues"`     // and pull requests, by number
	Statuses   []*status `json:"statuses"`
}

// An issue is an issue, or a pull request if Pull is set.
type issue struct {
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
	Comments  []*comment `json:"comments"`
	Pull      *pull      `json:"pull,omitempty"`
}

// A comment is a comment of an issue or a pull request.
type comment struct {
	ID        int64     `json:"id"`
	Author    string    `json:"author"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// A pull is what a pull request has besides its issue. Head and Base are commits; after the end they
// stay what they were. Before is the head before the last push, or Head.
type pull struct {
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

// A status is what somebody said of a commit. The newest of each context counts.
type status struct {
	ID          int64     `json:"id"`
	Commit      string    `json:"commit"`
	State       string    `json:"state"`
	Context     string    `json:"context"`
	Description string    `json:"description"`
	TargetURL   string    `json:"targetUrl"`
	Author      string    `json:"author"`
	CreatedAt   time.Time `json:"createdAt"`
}

func (r *record) nextID() int64 {
	r.LastID++
	return r.LastID
}

// issue returns an issue or a pull request, or nil.
func (r *record) issue(number int) *issue {
	i, ok := slices.BinarySearchFunc(r.Issues, number, func(i *issue, n int) int { return cmp.Compare(i.Number, n) })
	if !ok {
		return nil
	}
	return r.Issues[i]
}

// pull returns a pull request, or nil.
func (r *record) pull(number int) *issue {
	if i := r.issue(number); i != nil && i.Pull != nil {
		return i
	}
	return nil
}

// addIssue adds an issue with the next number.
func (r *record) addIssue(author, title, body string, labels []string, now time.Time) *issue {
	r.LastNumber++
	i := &issue{
		Number: r.LastNumber, ID: r.nextID(), Title: title, Body: body, Author: author, Labels: append([]string{}, labels...),
		CreatedAt: now, UpdatedAt: now, Comments: []*comment{},
	}
	r.Issues = append(r.Issues, i)
	return i
}

// addComment adds a comment to i.
func (r *record) addComment(i *issue, author, body string, now time.Time) *comment {
	c := &comment{ID: r.nextID(), Author: author, Body: body, CreatedAt: now, UpdatedAt: now}
	i.Comments = append(i.Comments, c)
	i.UpdatedAt = now
	return c
}

// comment returns a comment with its issue, or nils.
func (r *record) comment(id int64) (*issue, *comment) {
	for _, i := range r.Issues {
		for _, c := range i.Comments {
			if c.ID == id {
				return i, c
			}
		}
	}
	return nil, nil
}

// close closes i for a reason.
func (i *issue) close(by, reason string, now time.Time) {
	i.Closed, i.Reason, i.ClosedAt, i.ClosedBy, i.UpdatedAt = true, reason, &now, by, now
}

// reopen opens i again.
func (i *issue) reopen(now time.Time) {
	i.Closed, i.Reason, i.ClosedAt, i.ClosedBy, i.UpdatedAt = false, "reopened", nil, "", now
}

// state is open or closed.
func (i *issue) state() string {
	if i.Closed {
		return "closed"
	}
	return "open"
}

// statusesOf returns the newest status of each context of a commit, the newest first.
func (r *record) statusesOf(commit string) (list []*status) {
	seen := map[string]bool{}
	for _, s := range slices.Backward(r.Statuses) {
		if s.Commit == commit && !seen[s.Context] {
			seen[s.Context] = true
			list = append(list, s)
		}
	}
	return list
}

// combined is the state of all statuses.
func combined(list []*status) string {
	is := func(states ...string) bool {
		return slices.ContainsFunc(list, func(s *status) bool { return slices.Contains(states, s.State) })
	}
	switch {
	case is("failure", "error"):
		return "failure"
	case len(list) == 0 || is("pending"):
		return "pending"
	}
	return "success"
}
