package rest

import (
	"context"
	"net/http"

	"svc/aggregates"
	"svc/events"
	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/projections"
	"svc/projections/fold"
)

func (s *Server) repoRoutes() section {
	changes := append([]*fault.Fault{fold.ErrNotCaughtUp}, engineFaults...)
	return section{tag: "Repositories", about: "The repositories at code hosts that runs work on.", routes: []route{
		query(s.listRepos, route{
			method: "GET", path: "/repos", guard: anyMemberOrReadToken, views: []string{"repos", "runs", "run_counts"},
			id: "listRepos", summary: "List repositories",
			text: "Lists the connected repositories of the workspace, and those that runs have worked on, by name, at most 1,000, with their " +
				"numbers of runs. Use an id as the `repo` filter of lists and insights.",
			answerExample: repoList{[]repoRuns{newRepoRuns(exampleListedRepo)}},
		}),
		command((*newRepo).toCommand, s.connectRepo, route{
			method: "POST", path: "/repos", guard: mayDo(events.ManageRepos), limits: middleware.Limits{Body: maxRepoBody},
			id: "connectRepo", summary: "Connect a repository", status: http.StatusCreated,
			text: "Connects a repository, once everything that runs need was tried with the credential: it creates and deletes a branch " +
				"`svc-check/…`. 422 `repo_check_failed` with what is lacking in `details.checks`, and nothing is kept. Credentials are stored " +
				"encrypted and never returned; build machines receive only `readCredential`.",
			refuses: append([]*fault.Fault{aggregates.ErrRepoConnected, errReposFull, errRepoCheck}, changes...),
			requestExample: object{
				"url": "https://github.com/acme/web", "credential": "…", "settings": object{"maxActive": 3},
			},
			answerExample: newRepoDetail(exampleRepoRow, true),
		}),
		query(s.getRepo, route{
			method: "GET", path: "/repos/{id}", guard: anyMemberOrReadToken, views: []string{"repos"},
			id: "getRepo", summary: "Get a repository",
			text:          "Returns a repository that is or was connected, with its settings and what the last check found.",
			refuses:       []*fault.Fault{aggregates.ErrNoRepo},
			answerExample: newRepoDetail(exampleRepoRow, true),
		}),
		command((*repoChange).toCommand, s.changeRepo, route{
			method: "PATCH", path: "/repos/{id}", guard: mayDo(events.ManageRepos), limits: middleware.Limits{Body: maxRepoBody},
			id: "changeRepo", summary: "Change a repository's settings",
			text:           "Changes the given settings. They apply to what runs do from now on.",
			missing:        aggregates.ErrNoRepo,
			refuses:        []*fault.Fault{fold.ErrNotCaughtUp},
			requestExample: object{"maxActive": 3}, answerExample: newRepoDetail(exampleRepoRow, true),
		}),
		command((*repoEnd).toCommand, s.disconnectRepo, route{
			method: "DELETE", path: "/repos/{id}", guard: mayDo(events.ManageRepos),
			id: "disconnectRepo", summary: "Disconnect a repository", status: http.StatusNoContent,
			text: "Ends work on a repository and deletes its credentials. Its runs and jobs stay listed; jobs that wait are cancelled when " +
				"their turn comes. It can be connected again.",
			missing: aggregates.ErrNoRepo,
			refuses: []*fault.Fault{aggregates.ErrRepoName},
		}),
		command((*RepoPath).check, s.checkRepo, route{
			method: "POST", path: "/repos/{id}/check", guard: mayDo(events.ManageRepos),
			id: "checkRepo", summary: "Check a repository",
			text:    "Tries again everything that runs need, and records what it finds, a new name of the repository too.",
			missing: aggregates.ErrNoRepo, refuses: append([]*fault.Fault{aggregates.ErrRepoConnected}, changes...),
			answerExample: newRepoDetail(exampleRepoRow, true),
		}),
		command((*newCredentialOf).toCommand, s.replaceCredential, route{
			method: "POST", path: "/repos/{id}/credential", guard: mayDo(events.ManageRepos),
			id: "replaceRepoCredential", summary: "Replace a credential of a repository",
			text: "Replaces a credential, once everything that runs need was tried with the new one: 422 `repo_check_failed` otherwise. " +
				"A pause because the code host refused the credential ends.",
			missing: aggregates.ErrNoRepo, refuses: append([]*fault.Fault{errRepoCheck}, changes...),
			requestExample: object{"which": "write", "credential": "…"}, answerExample: newRepoDetail(exampleRepoRow, true),
		}),
		command((*repoPause).toCommand, s.pauseRepo, route{
			method: "POST", path: "/repos/{id}/pause", guard: mayDo(events.ManageRepos),
			id: "pauseRepo", summary: "Pause a repository",
			text:    "Stops work on a repository: no run begins, and active ones do not go on.",
			missing: aggregates.ErrNoRepo, refuses: []*fault.Fault{fold.ErrNotCaughtUp},
			requestExample: object{"reason": "Release freeze."}, answerExample: newRepoDetail(exampleRepoRow, true),
		}),
		command((*RepoPath).resume, s.resumeRepo, route{
			method: "POST", path: "/repos/{id}/resume", guard: mayDo(events.ManageRepos),
			id: "resumeRepo", summary: "Resume a repository",
			text:    "Ends a pause, also one by the service.",
			missing: aggregates.ErrNoRepo, refuses: []*fault.Fault{fold.ErrNotCaughtUp},
			answerExample: newRepoDetail(exampleRepoRow, true),
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
	Kind        string             `json:"kind,omitempty" enum:"github,git"`
	WebURL      string             `json:"webUrl,omitempty" example:"https://github.com/acme/web"`
	Branch      string             `json:"branch,omitempty" example:"main"`
	PauseReason string             `json:"pauseReason,omitempty"`
	OK          *bool              `json:"ok,omitempty" doc:"Whether the last check found everything that runs need."`
	ConnectedAt *openapi.Timestamp `json:"connectedAt,omitempty"`
}

func (s *Server) listRepos(ctx context.Context, _ *struct{}) (*reposAnswer, error) {
	found, err := s.Lists.Repos.List(ctx, callerOf(ctx).workspace)
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
	Kind              string            `json:"kind" enum:"github,git" doc:"github: GitHub, GitHub Enterprise, and what speaks their interface. git: git alone, without issues and pull requests."`
	WebURL            string            `json:"webUrl,omitempty" example:"https://github.com/acme/web"`
	APIURL            string            `json:"apiUrl,omitempty" example:"https://api.github.com"`
	CloneURL          string            `json:"cloneUrl" example:"https://github.com/acme/web.git"`
	HasCredential     bool              `json:"hasCredential"`
	HasReadCredential bool              `json:"hasReadCredential" doc:"Whether build machines clone with a credential."`
	Settings          repoSettings      `json:"settings"`
	Pause             *pause            `json:"pause,omitempty" doc:"Present while it is paused."`
	Check             *checkup          `json:"check,omitempty" doc:"What the last check found."`
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

func (r *repoDetail) names() []namePlace {
	list := []namePlace{{r.ConnectedBy, &r.ConnectorName}}
	if r.Pause != nil {
		list = append(list, namePlace{r.Pause.By, &r.Pause.ByName})
	}
	return list
}

// A RepoPath names a repository.
type RepoPath struct {
	ID string `path:"id" maxLength:"64" doc:"The repository's id."`
}

func (s *Server) getRepo(ctx context.Context, in *RepoPath) (*bodyAnswer[repoDetail], error) {
	found, err := findInPath(ctx, in.ID, aggregates.ErrNoRepo, s.Lists.Repos.Get)
	if err != nil {
		return nil, err
	}
	detail, err := withNames(ctx, s, newRepoDetail(found, callerOf(ctx).token == nil), (*repoDetail).names)
	return &bodyAnswer[repoDetail]{detail}, err
}

// sitesOf returns where people see repositories, of those that are or were connected.
func (s *Server) sitesOf(ctx context.Context, ids []events.ID) (map[events.ID]projections.RepoSite, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return s.Lists.Repos.Sites(ctx, callerOf(ctx).workspace, ids)
}

var exampleListedRepo = projections.ListedRepo{
	ID: exampleRepo.ID, Name: exampleRepo.Name, Status: projections.RepoActive, Kind: string(events.HostGitHub),
	Web: "https://github.com/acme/web", Branch: "main", OK: new(true), ConnectedAt: new(exampleAt(9000)), Active: 1, Terminal: 14,
}

var exampleRepoRow = projections.Repo{
	ID: exampleRepo.ID, Name: exampleRepo.Name, Kind: events.HostGitHub, API: "https://api.github.com",
	Web: "https://github.com/acme/web", Clone: "https://github.com/acme/web.git", HasCredential: true, HasReadCredential: true,
	Settings: events.RepoSettings{
		Branch: "main", Implementer: events.Implementer{Kind: events.ImplementerPatch},
		RequiredJobs: []events.RequiredJob{{
			Name: "test", Steps: []events.JobStep{{Name: "test", Run: "go test ./...", Shell: "sh"}}, RunSeconds: 3600,
		}},
		Landing: events.LandByHost, Method: events.MergeCommit, MaxActive: 3, Rounds: 3, MaxFiles: 50, MaxLines: 1500,
	},
	Status: projections.RepoActive, OK: new(true), CheckedAt: new(exampleAt(9000)),
	Checks:      []events.RepoCheck{{Check: "push", Status: events.CheckOK, Text: "The credential may push."}},
	ConnectedBy: exampleAda.Name, ConnectedAt: exampleAt(9000),
}
