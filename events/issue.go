package events

import (
	"crypto/sha256"
	"fmt"
)

// issues are those that runs work on, each with a stream of its own: [IssueStream].
var issues = Noun{
	Name: "issue", Audience: Everybody,
	work: [][]decoder{decodersOf[IssueCostRecorded]()},
}

// IssueStream is the id of the stream of an issue.
func IssueStream(repo ID, number int) ID {
	sum := sha256.Sum256(fmt.Appendf(nil, "issue/%s/%d", repo, number))
	return ID(sum[:16])
}

// IssueCostRecorded says what a part of a run of the issue cost, in a repository that has a budget for each issue. It is
// recorded together with the run's [RunCostRecorded] of that key.
type IssueCostRecorded struct {
	Run     ID     `json:"runId"`
	Key     string `json:"key"`
	Cents   int64  `json:"cents"`
	Unknown bool   `json:"unknown,omitempty"` // nobody knows the cost, and Cents is 0
}

func (IssueCostRecorded) Kind() string               { return "issue.cost_recorded" }
func (IssueCostRecorded) target(r *Record) Target    { return Target{"issue", r.Stream, ""} }
func (IssueCostRecorded) changes(r *Record) []Change { return r.allFields() }
