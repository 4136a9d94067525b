package events

// workspaces are what people work in, each with its own log.
var workspaces = Noun{
	Name: "workspace", Audience: Members, State: true,
	people: [][]decoder{
		decodersOf[WorkspaceCreated](),
		decodersOf[WorkspaceRenamed](),
	},
}

// WorkspaceCreated says that a workspace was created. Its stream has the workspace's own id
// and holds the members too, because rules such as "an Owner remains" concern all of them.
type WorkspaceCreated struct {
	Name string `json:"name"`
	Slug string `json:"slug"`
}

func (WorkspaceCreated) Kind() string               { return "workspace.created" }
func (e WorkspaceCreated) target(r *Record) Target  { return Target{"workspace", r.Stream, e.Slug} }
func (WorkspaceCreated) changes(r *Record) []Change { return r.allFields() }

// WorkspaceRenamed says that a workspace got another name, another slug or both.
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
