package codehost

import (
	"net/http"
	"sync"

	"svc/http/reply"
)

// effects count what was done since the host started, for tests that nothing happened twice.
type effects struct {
	Pushes          map[string]int `json:"pushes"` // by ref; over git only
	Branches        int            `json:"branches"`
	BranchesDeleted int            `json:"branches_deleted"`
	Issues          int            `json:"issues_created"`
	Pulls           int            `json:"pulls_created"`
	PullsClosed     int            `json:"pulls_closed"` // without being merged
	Comments        int            `json:"comments_created"`
	CommentsEdited  int            `json:"comments_edited"`
	Merges          int            `json:"merges"`
	Statuses        int            `json:"statuses"`
}

// push counts a ref that was changed by a push.
func (e *effects) push(ref, before, after string) {
	e.Pushes[ref]++
	e.change(before, after)
}

func (e *effects) change(before, after string) {
	switch {
	case before == "":
		e.Branches++
	case after == "":
		e.BranchesDeleted++
	}
}

// counts are the effects of each repository, and numbers of requests.
type counts struct {
	mu           sync.Mutex
	repositories map[string]*effects
	requests     int
	byLogin      map[string]int
}

func newCounts() *counts {
	return &counts{repositories: map[string]*effects{}, byLogin: map[string]int{}}
}

// add counts an effect on a repository.
func (c *counts) add(name string, count func(*effects)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.repositories[name]
	if e == nil {
		e = &effects{Pushes: map[string]int{}}
		c.repositories[name] = e
	}
	count(e)
}

// request counts a request of the GitHub interface or of git, by the login of its token.
func (c *counts) request(login string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.byLogin[login]++
}

// ServeHTTP answers the sum of all repositories, and each. Refs of the sum have the repository's name
// before them.
func (c *counts) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := effects{Pushes: map[string]int{}}
	for name, e := range c.repositories {
		for ref, n := range e.Pushes {
			sum.Pushes[name+" "+ref] = n
		}
		sum.Branches += e.Branches
		sum.BranchesDeleted += e.BranchesDeleted
		sum.Issues += e.Issues
		sum.Pulls += e.Pulls
		sum.PullsClosed += e.PullsClosed
		sum.Comments += e.Comments
		sum.CommentsEdited += e.CommentsEdited
		sum.Merges += e.Merges
		sum.Statuses += e.Statuses
	}
	reply.JSON(w, http.StatusOK, struct {
		effects
		Requests     int                 `json:"requests"`
		ByLogin      map[string]int      `json:"requests_by_login"`
		Repositories map[string]*effects `json:"repositories"`
	}{sum, c.requests, c.byLogin, c.repositories})
}
