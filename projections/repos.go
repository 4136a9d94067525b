package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/events"
	"svc/fault"
	"svc/projections/fold"
	"svc/projections/query"
)

// Repos is the view of the repositories that were ever connected. It is followed: who may do what with a repository
// does not depend on it, nor does what is cloned and with which credential.
type Repos struct{ DB *pgxpool.Pool }

// A Repo is a repository without its credentials.
type Repo struct {
	Workspace         events.ID           `db:"workspace_id"`
	ID                events.ID           `db:"repo_id"`
	Name              string              `db:"name"`
	Kind              events.HostKind     `db:"kind"`
	API               string              `db:"api_url"`
	Web               string              `db:"web_url"`
	Clone             string              `db:"clone_url"`
	HostID            string              `db:"host_id"`
	HasCredential     bool                `db:"has_credential"`
	HasReadCredential bool                `db:"has_read_credential"`
	Hook              *events.ID          `db:"hook_id"` // nil: there is none
	Settings          events.RepoSettings `db:"settings"`
	Status            string              `db:"status"` // active, paused, disconnected
	PauseCode         events.PauseCode    `db:"pause_code"`
	PauseReason       string              `db:"pause_reason"`
	PausedBy          string              `db:"paused_by"`
	PausedAt          *time.Time          `db:"paused_at"`
	OK                *bool               `db:"ok"` // nil: never checked
	Checks            []events.RepoCheck  `db:"checks"`
	CheckedAt         *time.Time          `db:"checked_at"` // when the findings became these
	ConnectedBy       string              `db:"connected_by"`
	ConnectedAt       time.Time           `db:"connected_at"`
}

// The status of a repository.
const (
	RepoActive       = "active"
	RepoPaused       = "paused"
	RepoDisconnected = "disconnected"
	RepoUnconnected  = "unconnected" // only runs name it; it has no row
)

var repos = &fold.Table[events.ID, Repo]{
	View: "repos", Updated: fold.Followed, Key: "repo_id",
	Kinds: []string{"repo"},
	Keys: func(r events.Record) []events.ID {
		switch r.Event.(type) {
		case events.RepoConnected, events.RepoChecked, events.RepoSettingsChanged, events.RepoCredentialReplaced,
			events.RepoHookSet, events.RepoPaused, events.RepoResumed, events.RepoRenamed, events.RepoDisconnected:
			return []events.ID{r.Stream}
		}
		return nil
	},
	Apply: func(id events.ID, repo *Repo, r events.Record) *Repo {
		if e, ok := r.Event.(events.RepoConnected); ok {
			connected := &Repo{
				Workspace: r.Workspace, ID: id, Name: e.Name, HasCredential: !e.Credential.IsZero(),
				HasReadCredential: !e.ReadCredential.IsZero(), Settings: e.Settings, Status: RepoActive,
				Checks: []events.RepoCheck{}, ConnectedBy: r.Actor.Name, ConnectedAt: r.At,
			}
			connected.setHost(e.Host)
			return connected
		}
		after := *repo
		after.apply(r)
		return &after
	},
}

func (repo *Repo) apply(r events.Record) {
	switch e := r.Event.(type) {
	case events.RepoChecked:
		repo.OK, repo.Checks, repo.CheckedAt = &e.OK, e.Checks, &r.At
	case events.RepoSettingsChanged:
		repo.Settings = e.To
	case events.RepoCredentialReplaced:
		if e.Which == events.ReadCredential {
			repo.HasReadCredential = !e.Value.IsZero()
		} else {
			repo.HasCredential = !e.Value.IsZero()
		}
	case events.RepoHookSet:
		repo.Hook = &e.Hook
	case events.RepoPaused:
		repo.Status, repo.PauseCode, repo.PauseReason, repo.PausedBy, repo.PausedAt = RepoPaused, e.Code, e.Reason, r.Actor.Name, &r.At
	case events.RepoResumed:
		repo.Status, repo.PauseCode, repo.PauseReason, repo.PausedBy, repo.PausedAt = RepoActive, "", "", "", nil
	case events.RepoRenamed:
		repo.Name = e.To
		repo.setHost(e.Host)
	case events.RepoDisconnected:
		repo.Status, repo.HasCredential, repo.HasReadCredential, repo.Hook = RepoDisconnected, false, false, nil
	}
}

func (repo *Repo) setHost(h events.RepoHost) {
	repo.Kind, repo.API, repo.Web, repo.Clone, repo.HostID = h.Kind, h.API, h.Web, h.Clone, h.ID
}

// maxRepos bounds the result of List.
const maxRepos = 1000

// A ListedRepo is a repository with the numbers of its runs. What only a connected repository has is empty for
// others.
type ListedRepo struct {
	ID          events.ID  `db:"repo_id"`
	Name        string     `db:"name"`
	Status      string     `db:"status"` // of a Repo, or unconnected
	Kind        string     `db:"kind"`
	Web         string     `db:"web_url"`
	Branch      string     `db:"branch"`
	PauseReason string     `db:"pause_reason"`
	OK          *bool      `db:"ok"`
	ConnectedAt *time.Time `db:"connected_at"`
	Active      int        `db:"active"`
	Terminal    int        `db:"terminal"`
}

// List returns up to maxRepos repositories by name: those that are connected, and those that runs worked on. The name of
// one that was never connected is that of its run with the highest issue number.
func (v Repos) List(ctx context.Context, workspace events.ID) ([]ListedRepo, error) {
	rows, _ := v.DB.Query(ctx, `
		select coalesce(p.repo_id, c.repo_id) repo_id, coalesce(p.name, r.repo_name, '') name, coalesce(p.status, 'unconnected') status,
			coalesce(p.kind, '') kind, coalesce(p.web_url, '') web_url, coalesce(p.settings ->> 'branch', '') branch,
			coalesce(p.pause_reason, '') pause_reason, p.ok, p.connected_at, coalesce(c.active, 0) active, coalesce(c.terminal, 0) terminal
		from (select * from repos where workspace_id = $1 order by status = 'disconnected', repo_id limit $2) p
		full join (select * from run_counts where workspace_id = $1 order by repo_id limit $2) c on c.repo_id = p.repo_id
		left join lateral (
			select repo_name from runs where workspace_id = $1 and p.repo_id is null and repo_id = c.repo_id
			order by issue_number desc limit 1) r on true
		where p.status is distinct from 'disconnected' or c.repo_id is not null
		order by coalesce(p.name, r.repo_name, '') collate "C", 1 limit $2`, workspace, maxRepos)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[ListedRepo])
	return list, fault.Wrap(err, "list repositories of %s", workspace)
}

// Get returns a repository that is or was connected. ok is false if there is none.
func (v Repos) Get(ctx context.Context, workspace, id events.ID) (repo Repo, ok bool, err error) {
	rows, _ := v.DB.Query(ctx, `
		select workspace_id, repo_id, name, kind, api_url, web_url, clone_url, host_id, has_credential, has_read_credential, hook_id,
			settings, status, pause_code, pause_reason, paused_by, paused_at, ok, checks, checked_at, connected_by, connected_at
		from repos where workspace_id = $1 and repo_id = $2`, workspace, id)
	return query.Optional[Repo](rows, "repository "+id.String())
}

// Count returns how many repositories of a workspace are connected.
func (v Repos) Count(ctx context.Context, workspace events.ID) (n int, err error) {
	err = v.DB.QueryRow(ctx, `select count(*) from repos where workspace_id = $1 and status <> 'disconnected'`, workspace).Scan(&n)
	return n, fault.Wrap(err, "count repositories of %s", workspace)
}

// A RepoSite is where people see a repository.
type RepoSite struct {
	ID   events.ID       `db:"repo_id"`
	Kind events.HostKind `db:"kind"`
	Web  string          `db:"web_url"`
}

// Sites returns where people see repositories, without those of ids that were never connected.
func (v Repos) Sites(ctx context.Context, workspace events.ID, ids []events.ID) (map[events.ID]RepoSite, error) {
	rows, _ := v.DB.Query(ctx, `select repo_id, kind, web_url from repos where workspace_id = $1 and repo_id = any($2)`, workspace, ids)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[RepoSite])
	if err != nil {
		return nil, fmt.Errorf("look up repositories of %s: %w", workspace, err)
	}
	sites := make(map[events.ID]RepoSite, len(list))
	for _, s := range list {
		sites[s.ID] = s
	}
	return sites, nil
}
