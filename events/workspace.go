package events

import "time"

// workspaces are what people work in, each with its own log.
var workspaces = Noun{
	Name: "workspace", Audience: Members, State: true, Rights: true,
	people: [][]decoder{
		decodersOf[WorkspaceCreated](),
		decodersOf[WorkspaceRenamed](),
		decodersOf[WorkspaceDeleted](),
		decodersOf[WorkspaceRestored](),
		decodersOf[WorkspacePurgeBegan](),
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

// RestorableFor is how long an Owner can restore a deleted workspace.
const RestorableFor = 30 * 24 * time.Hour

// WorkspaceDeleted says that an Owner deleted the workspace. From now on nobody acts in it, and it is
// purged at PurgeAt unless it is restored before.
type WorkspaceDeleted struct {
	Name    string    `json:"name"`
	Slug    string    `json:"slug"`
	PurgeAt time.Time `json:"purgeAt"`
}

func (WorkspaceDeleted) Kind() string               { return "workspace.deleted" }
func (e WorkspaceDeleted) target(r *Record) Target  { return Target{"workspace", r.Stream, e.Slug} }
func (WorkspaceDeleted) changes(r *Record) []Change { return r.allFields() }

// WorkspaceRestored says that an Owner restored the deleted workspace.
type WorkspaceRestored struct {
	Name string `json:"name"`
	Slug string `json:"slug"`
}

func (WorkspaceRestored) Kind() string              { return "workspace.restored" }
func (e WorkspaceRestored) target(r *Record) Target { return Target{"workspace", r.Stream, e.Slug} }
func (WorkspaceRestored) changes(*Record) []Change  { return []Change{} }

// WorkspacePurgeBegan says that the time to restore the workspace is over. It is the last event of its log,
// which is erased after it was signed.
type WorkspacePurgeBegan struct {
	Slug string `json:"slug"`
}

func (WorkspacePurgeBegan) Kind() string              { return "workspace.purge_began" }
func (e WorkspacePurgeBegan) target(r *Record) Target { return Target{"workspace", r.Stream, e.Slug} }
func (WorkspacePurgeBegan) changes(*Record) []Change  { return []Change{} }
