package runs

import (
	"context"
	"net/http"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/projections"
	"svc/projections/fold"
)

func (s *Server) repoRoutes() door.Section {
	changes := append([]*fault.Fault{fold.ErrNotCaughtUp}, engineFaults...)
	return door.Section{Tag: "Repositories", About: "The repositories at code hosts that runs work on.", Routes: []door.Route{
		door.Query(s.listRepos, door.Route{
			Method: "GET", Path: "/repos", Guard: door.AnyMemberOrReadToken, Views: []string{"repos", "runs", "run_counts"},
			ID: "listRepos", Summary: "List repositories",
			Text: "Lists the connected repositories of the workspace, and those that runs have worked on, by name, at most 1,000, with their " +
				"numbers of runs. Use an id as the `repo` filter of lists and insights.",
			AnswerExample: repoList{[]repoRuns{newRepoRuns(exampleListedRepo)}},
		}),
		door.Command((*newRepo).toCommand, s.connectRepo, door.Route{
			Method: "POST", Path: "/repos", Guard: door.MayDo(events.ManageRepos), Limits: middleware.Limits{Body: maxRepoBody},
			ID: "connectRepo", Summary: "Connect a repository", Status: http.StatusCreated,
			Text: "Connects a repository, once everything that runs need was tried with the credential: it creates and deletes a branch " +
				"`svc-check/…`. 422 `repo_check_failed` with what is lacking in `details.checks`, and nothing is kept. Credentials are stored " +
				"encrypted and never returned; build machines receive only `readCredential`.",
			Refuses: append([]*fault.Fault{aggregates.ErrRepoConnected, errReposFull, errRepoCheck}, changes...),
			RequestExample: schema.Object{
				"url": "https://github.com/acme/web", "credential": "…", "settings": schema.Object{"maxActive": 3},
			},
			AnswerExample: newRepoDetail(exampleRepoRow, true),
		}),
		door.Query(s.getRepo, door.Route{
			Method: "GET", Path: "/repos/{id}", Guard: door.AnyMemberOrReadToken, Views: []string{"repos"},
			ID: "getRepo", Summary: "Get a repository",
			Text:          "Returns a repository that is or was connected, with its settings and what the last check found.",
			Refuses:       []*fault.Fault{aggregates.ErrNoRepo},
			AnswerExample: newRepoDetail(exampleRepoRow, true),
		}),
		door.Command((*repoChange).toCommand, s.changeRepo, door.Route{
			Method: "PATCH", Path: "/repos/{id}", Guard: door.MayDo(events.ManageRepos), Limits: middleware.Limits{Body: maxRepoBody},
			ID: "changeRepo", Summary: "Change a repository's settings",
			Text:           "Changes the given settings. They apply to what runs do from now on.",
			Missing:        aggregates.ErrNoRepo,
			Refuses:        []*fault.Fault{fold.ErrNotCaughtUp},
			RequestExample: schema.Object{"maxActive": 3}, AnswerExample: newRepoDetail(exampleRepoRow, true),
		}),
		door.Command((*repoEnd).toCommand, s.disconnectRepo, door.Route{
			Method: "DELETE", Path: "/repos/{id}", Guard: door.MayDo(events.ManageRepos),
			ID: "disconnectRepo", Summary: "Disconnect a repository", Status: http.StatusNoContent,
			Text: "Ends work on a repository and deletes its credentials. Its runs and jobs stay listed; jobs that wait are cancelled when " +
				"their turn comes. It can be connected again.",
			Missing: aggregates.ErrNoRepo,
			Refuses: []*fault.Fault{aggregates.ErrRepoName},
		}),
		door.Command((*RepoPath).check, s.checkRepo, door.Route{
			Method: "POST", Path: "/repos/{id}/check", Guard: door.MayDo(events.ManageRepos),
			ID: "checkRepo", Summary: "Check a repository",
			Text:    "Tries again everything that runs need, and records what it finds, a new name of the repository too.",
			Missing: aggregates.ErrNoRepo, Refuses: append([]*fault.Fault{aggregates.ErrRepoConnected}, changes...),
			AnswerExample: newRepoDetail(exampleRepoRow, true),
		}),
		door.Command((*newCredentialOf).toCommand, s.replaceCredential, door.Route{
			Method: "POST", Path: "/repos/{id}/credential", Guard: door.MayDo(events.ManageRepos),
			ID: "replaceRepoCredential", Summary: "Replace a credential of a repository",
			Text: "Replaces a credential, once everything that runs need was tried with the new one: 422 `repo_check_failed` otherwise. " +
				"A pause because the code host refused the credential ends.",
			Missing: aggregates.ErrNoRepo, Refuses: append([]*fault.Fault{errRepoCheck}, changes...),
			RequestExample: schema.Object{"which": "write", "credential": "…"}, AnswerExample: newRepoDetail(exampleRepoRow, true),
		}),
		door.Command((*RepoPath).hook, s.setHook, door.Route{
			Method: "POST", Path: "/repos/{id}/hook", Guard: door.MayDo(events.ManageRepos),
			ID: "setRepoHook", Summary: "Set up a repository's hook",
			Text: "Makes an address at which the code host tells of changes, and sets it up there if the credential may. Otherwise people do, " +
				"with the secret of the answer. An address that the repository had before is none any more.",
			Missing: aggregates.ErrNoRepo,
			AnswerExample: newHook{
				URL: "https://svc.example.com/hooks/" + schema.ExampleRepo.ID.String(), Secret: "…",
				Why: "Resource not accessible by personal access token",
			},
		}),
		door.Command((*repoPause).toCommand, s.pauseRepo, door.Route{
			Method: "POST", Path: "/repos/{id}/pause", Guard: door.MayDo(events.ManageRepos),
			ID: "pauseRepo", Summary: "Pause a repository",
			Text:    "Stops work on a repository: no run begins, and active ones do not go on.",
			Missing: aggregates.ErrNoRepo, Refuses: []*fault.Fault{fold.ErrNotCaughtUp},
			RequestExample: schema.Object{"reason": "Release freeze."}, AnswerExample: newRepoDetail(exampleRepoRow, true),
		}),
		door.Command((*RepoPath).resume, s.resumeRepo, door.Route{
			Method: "POST", Path: "/repos/{id}/resume", Guard: door.MayDo(events.ManageRepos),
			ID: "resumeRepo", Summary: "Resume a repository",
			Text:    "Ends a pause, also one by the service.",
			Missing: aggregates.ErrNoRepo, Refuses: []*fault.Fault{fold.ErrNotCaughtUp},
			AnswerExample: newRepoDetail(exampleRepoRow, true),
		}),
	}}
}

type reposAnswer struct{ Body repoList }

type repoList struct {
	Items []repoRuns `json:"items" nullable:"false"`
}

type repoRuns struct {
	ID          string             `json:"id" format:"uuid"`
	Name        string             `json:"name" doc:"The name at its code host; for a repository that is not connected, the name in its newest issue." example:"acme/web"`
	Active      int                `json:"active" doc:"Runs that have not ended."`
	Terminal    int                `json:"terminal" doc:"Runs that have ended."`
	Status      string             `json:"status" enum:"active,paused,disconnected,unconnected" doc:"unconnected: only runs name it. The fields below are present if it is or was connected."`
	Kind        string             `json:"kind,omitempty" enum:"github,gitea,git"`
	WebURL      string             `json:"webUrl,omitempty" example:"https://github.com/acme/web"`
	Branch      string             `json:"branch,omitempty" example:"main"`
	PauseReason string             `json:"pauseReason,omitempty"`
	OK          *bool              `json:"ok,omitempty" doc:"Whether the last check found everything that runs need."`
	ConnectedAt *openapi.Timestamp `json:"connectedAt,omitempty"`
}

func (s *Server) listRepos(ctx context.Context, _ *struct{}) (*reposAnswer, error) {
	found, err := s.Listed.Repos.List(ctx, door.CallerOf(ctx).Workspace)
	if err != nil {
		return nil, err
	}
	out := &reposAnswer{repoList{make([]repoRuns, 0, len(found))}}
	for _, r := range found {
		out.Body.Items = append(out.Body.Items, newRepoRuns(r))
	}
	return out, nil
}

func newRepoRuns(r projections.ListedRepo) repoRuns {
	return repoRuns{
		ID: r.ID.String(), Name: r.Name, Active: r.Active, Terminal: r.Terminal, Status: r.Status, Kind: r.Kind, WebURL: r.Web,
		Branch: r.Branch, PauseReason: r.PauseReason, OK: r.OK, ConnectedAt: openapi.FormatOptionalTime(r.ConnectedAt),
	}
}

// A repoDetail is a repository with its settings.
type repoDetail struct {
	ID                string            `json:"id" format:"uuid"`
	Name              string            `json:"name" example:"acme/web"`
	Status            string            `json:"status" enum:"active,paused,disconnected"`
	Kind              string            `json:"kind" enum:"github,gitea,git" doc:"github: GitHub, GitHub Enterprise, and what speaks their interface. gitea: Gitea and Forgejo. git: git alone, without issues and pull requests."`
	WebURL            string            `json:"webUrl,omitempty" example:"https://github.com/acme/web"`
	APIURL            string            `json:"apiUrl,omitempty" example:"https://api.github.com"`
	CloneURL          string            `json:"cloneUrl" example:"https://github.com/acme/web.git"`
	HasCredential     bool              `json:"hasCredential"`
	HasReadCredential bool              `json:"hasReadCredential" doc:"Whether build machines clone with a credential."`
	Settings          repoSettings      `json:"settings"`
	Pause             *pause            `json:"pause,omitempty" doc:"Present while it is paused."`
	Check             *checkup          `json:"check,omitempty" doc:"What the last check found."`
	Hook              *repoHook         `json:"hook,omitempty" doc:"Where the code host tells of changes. Without it they are noticed later."`
	ConnectedBy       string            `json:"connectedBy" doc:"Empty for service accounts." example:"ada@acme.example"`
	ConnectorName     string            `json:"connectedByName,omitempty" doc:"Name of the person who has this address now. Absent for other actors." example:"Ada Lind"`
	ConnectedAt       openapi.Timestamp `json:"connectedAt"`
}

// A pause is why no run works on a repository.
type pause struct {
	Code   events.PauseCode   `json:"code,omitempty" enum:"credential,infrastructure,identity,check" doc:"Why the service paused it; absent if a person did."`
	Reason string             `json:"reason" example:"Release freeze."`
	By     string             `json:"by" doc:"Empty for service accounts." example:"ada@acme.example"`
	ByName string             `json:"byName,omitempty" doc:"Name of the person who has this address now. Absent for other actors." example:"Ada Lind"`
	At     *openapi.Timestamp `json:"at"`
}

// A checkup is what a check found.
type checkup struct {
	OK     bool               `json:"ok" doc:"Whether nothing is lacking."`
	Checks []repoCheck        `json:"checks" nullable:"false"`
	At     *openapi.Timestamp `json:"at" doc:"When a check first found this."`
}

type repoCheck struct {
	ID     string `json:"id" example:"push"`
	Status string `json:"status" doc:"ok, lacking (runs cannot work without it) or noted." example:"ok"`
	Text   string `json:"text" example:"The credential may push."`
	Remedy string `json:"remedy,omitempty"`
	URL    string `json:"url,omitempty" doc:"Where to mend it."`
}

func newRepoChecks(list []events.RepoCheck) []repoCheck {
	out := []repoCheck{}
	for _, c := range list {
		out = append(out, repoCheck{c.Check, c.Status, c.Text, c.Remedy, c.URL})
	}
	return out
}

// newRepoDetail returns a repository, with the people who did something to it if people is set.
func newRepoDetail(r projections.Repo, people bool) repoDetail {
	out := repoDetail{
		ID: r.ID.String(), Name: r.Name, Status: r.Status, Kind: string(r.Kind), WebURL: r.Web, APIURL: r.API, CloneURL: r.Clone,
		HasCredential: r.HasCredential, HasReadCredential: r.HasReadCredential, Settings: newRepoSettings(r.Settings),
		ConnectedAt: openapi.FormatTime(r.ConnectedAt),
	}
	if r.Status == projections.RepoPaused {
		out.Pause = &pause{Code: r.PauseCode, Reason: r.PauseReason, At: openapi.FormatOptionalTime(r.PausedAt)}
	}
	if r.OK != nil {
		out.Check = &checkup{*r.OK, newRepoChecks(r.Checks), openapi.FormatOptionalTime(r.CheckedAt)}
	}
	if people {
		out.ConnectedBy = r.ConnectedBy
		if out.Pause != nil {
			out.Pause.By = r.PausedBy
		}
	}
	return out
}

func (r *repoDetail) names() []door.NamePlace {
	list := []door.NamePlace{{Address: r.ConnectedBy, Name: &r.ConnectorName}}
	if r.Pause != nil {
		list = append(list, door.NamePlace{Address: r.Pause.By, Name: &r.Pause.ByName})
	}
	return list
}

// A RepoPath names a repository.
type RepoPath struct {
	ID string `path:"id" maxLength:"64" doc:"The repository's id."`
}

func (s *Server) getRepo(ctx context.Context, in *RepoPath) (*door.BodyAnswer[repoDetail], error) {
	found, err := door.FindInPath(ctx, in.ID, aggregates.ErrNoRepo, s.Listed.Repos.Get)
	if err != nil {
		return nil, err
	}
	detail, err := s.describeRepo(ctx, found, door.CallerOf(ctx).Token == nil)
	return &door.BodyAnswer[repoDetail]{Body: detail}, err
}

// sitesOf returns where people see repositories, of those that are or were connected.
func (s *Server) sitesOf(ctx context.Context, ids []events.ID) (map[events.ID]projections.RepoSite, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.Listed.Repos.Sites(ctx, door.CallerOf(ctx).Workspace, ids)
}

var exampleListedRepo = projections.ListedRepo{
	ID: schema.ExampleRepo.ID, Name: schema.ExampleRepo.Name, Status: projections.RepoActive, Kind: string(events.HostGitHub),
	Web: "https://github.com/acme/web", Branch: "main", OK: new(true), ConnectedAt: new(schema.ExampleAt(9000)), Active: 1, Terminal: 14,
}

var exampleRepoRow = projections.Repo{
	ID: schema.ExampleRepo.ID, Name: schema.ExampleRepo.Name, Kind: events.HostGitHub, API: "https://api.github.com",
	Web: "https://github.com/acme/web", Clone: "https://github.com/acme/web.git", HasCredential: true, HasReadCredential: true,
	Settings: events.RepoSettings{
		Branch: "main", Implementer: events.Implementer{Kind: events.ImplementerPatch},
		RequiredJobs: []events.RequiredJob{{
			Name: "test", Steps: []events.JobStep{{Name: "test", Run: "go test ./...", Shell: "sh"}}, RunSeconds: 3600,
		}},
		Landing: events.LandByHost, Method: events.MergeCommit, MaxActive: 3, Rounds: 3, MaxFiles: 50, MaxLines: 1500,
	},
	Status: projections.RepoActive, OK: new(true), CheckedAt: new(schema.ExampleAt(9000)),
	Checks:      []events.RepoCheck{{Check: "push", Status: events.CheckOK, Text: "The credential may push."}},
	ConnectedBy: schema.ExampleAda.Name, ConnectedAt: schema.ExampleAt(9000),
}
