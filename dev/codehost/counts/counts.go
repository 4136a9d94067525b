// Package counts counts what requests to the code host have done, for tests.
package counts

import (
	"net/http"
	"sync"

	"svc/http/reply"
)

// Effects counts what was done since the host started, for tests that nothing happened twice.
type Effects struct {
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

// Push counts a ref that was changed by a push.
func (e *Effects) Push(ref, before, after string) {
	e.Pushes[ref]++
	e.Change(before, after)
}

// Change counts a branch that was made or deleted.
func (e *Effects) Change(before, after string) {
	switch {
	case before == "":
		e.Branches++
	case after == "":
		e.BranchesDeleted++
	}
}

// Counts are the effects of each repository, and numbers of requests.
type Counts struct {
	mu           sync.Mutex
	repositories map[string]*Effects
	requests     int
	byLogin      map[string]int
}

// New returns counts of nothing.
func New() *Counts {
	return &Counts{repositories: map[string]*Effects{}, byLogin: map[string]int{}}
}

// Add counts an effect on a repository.
func (c *Counts) Add(name string, count func(*Effects)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.repositories[name]
	if e == nil {
		e = &Effects{Pushes: map[string]int{}}
		c.repositories[name] = e
	}
	count(e)
}

// Request counts a request of the GitHub interface or of git, by the login of its token.
func (c *Counts) Request(login string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.byLogin[login]++
}

// ServeHTTP answers the sum of all repositories, and each. Refs of the sum have the repository's name
// before them.
func (c *Counts) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := Effects{Pushes: map[string]int{}}
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
		Effects
		Requests     int                 `json:"requests"`
		ByLogin      map[string]int      `json:"requests_by_login"`
		Repositories map[string]*Effects `json:"repositories"`
	}{sum, c.requests, c.byLogin, c.repositories})
}
