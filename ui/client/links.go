package client

// IssueURL returns the address of a run's issue at the code host, or "".
func (l *Links) IssueURL() string {
	if l == nil {
		return ""
	}
	return l.Issue
}

// PullRequestURL returns the address of a run's pull request, or "" if it has none.
func (l *Links) PullRequestURL() string {
	if l == nil || l.PullRequest == nil {
		return ""
	}
	return *l.PullRequest
}

// ChangesURL returns the address of the changes in a run's pull request, or "" if it has none.
func (l *Links) ChangesURL() string {
	if l == nil || l.Changes == nil {
		return ""
	}
	return *l.Changes
}
