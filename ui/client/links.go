package client

// ForIssue is the address of a run's issue at the code host, "" if there is none.
func (l *Links) ForIssue() string {
	if l == nil {
		return ""
	}
	return l.Issue
}

// ForPullRequest is that of its pull request.
func (l *Links) ForPullRequest() string {
	if l == nil || l.PullRequest == nil {
		return ""
	}
	return *l.PullRequest
}

// ForChanges is that of what the pull request changes.
func (l *Links) ForChanges() string {
	if l == nil || l.Changes == nil {
		return ""
	}
	return *l.Changes
}
