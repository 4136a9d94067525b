package events

// workspaces are what people work in, each with a log.
var workspaces = Noun{
	Name: "workspace", Audience: Members, State: true,
	kinds: [][]decoder{
		of[WorkspaceCreated](),
		of[WorkspaceRenamed](),
	},
}

// WorkspaceCreated says that a workspace came into being. Its stream is the
// workspace's own id, which holds the members too: membership is one decision
// per workspace.
type WorkspaceCreated struct {
	Name string `json:"name"`
	Slug string `json:"slug"`
}

func (WorkspaceCreated) Kind() string               { return "workspace.created" }
func (e WorkspaceCreated) target(r *Record) Target  { return Target{"workspace", r.Stream, e.Slug} }
func (WorkspaceCreated) changes(r *Record) []Change { return r.stated() }

// WorkspaceRenamed says that a workspace got another name, slug or both.
type WorkspaceRenamed struct {
	FromName string `json:"fromName"`
	FromSlug string `json:"fromSlug"`
	Name     string `json:"name"`
	Slug     string `json:"slug"`
}

func (WorkspaceRenamed) Kind() string              { return "workspace.renamed" }
func (e WorkspaceRenamed) target(r *Record) Target { return Target{"workspace", r.Stream, e.Slug} }
func (e WorkspaceRenamed) changes(*Record) []Change {
	return differing(Change{"name", e.FromName, e.Name}, Change{"slug", e.FromSlug, e.Slug})
}
