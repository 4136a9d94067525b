package events

// WorkspaceCreated says that a workspace came into being. Its stream is the
// workspace's own id, which holds the members too: membership is one decision
// per workspace.
type WorkspaceCreated struct {
	Name string `json:"name"`
	Slug string `json:"slug"`
}

// WorkspaceRenamed says that a workspace got another name, slug or both.
type WorkspaceRenamed struct {
	FromName string `json:"fromName"`
	FromSlug string `json:"fromSlug"`
	Name     string `json:"name"`
	Slug     string `json:"slug"`
}

func (WorkspaceCreated) Kind() string { return "workspace.created" }
func (WorkspaceRenamed) Kind() string { return "workspace.renamed" }
