package commands_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
)

func hostOf(name string) events.RepoHost {
	return events.RepoHost{
		Kind: events.HostGitHub, API: "https://api.github.com", Web: "https://github.com/" + name, Clone: "https://github.com/" + name + ".git",
	}
}

func (m *team) connection(name string) commands.ConnectRepo {
	return commands.ConnectRepo{
		Meta: m.maintainer.in(m.id), Repo: newID(), Name: name, Host: hostOf(name), Credential: newID(),
		Settings: events.RepoSettings{Branch: "main"}, Checks: []events.RepoCheck{{Check: "push", Status: events.CheckOK, Text: "It may push."}},
	}
}

func TestRepoCommands(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	ctx, c := t.Context(), m.connection("acme/web")
	before := m.head(t, m.id)
	done, err := m.ConnectRepo(ctx, c)
	require.NoError(t, err)
	require.Equal(t, before+2, done.Position, "what the probe found is recorded at once")

	repo, err := m.other.Repo(ctx, m.id, c.Repo)
	require.NoError(t, err)
	require.True(t, repo.Connected())
	require.Equal(t, c.Host, repo.Host())
	require.Equal(t, c.Credential, repo.Credential(events.WriteCredential))
	require.Equal(t, 5, repo.Settings().MaxActive)
	kept := repo

	change := commands.ChangeRepoSettings{Meta: m.owner.in(m.id), Repo: c.Repo,
		Change: func(s events.RepoSettings) (events.RepoSettings, error) {
			s.MaxActive = 2
			return s, nil
		}}
	_, err = m.other.ChangeRepoSettings(ctx, change)
	require.NoError(t, err)
	done, err = m.ChangeRepoSettings(ctx, change)
	require.NoError(t, err)
	require.True(t, done.Idle)
	done, err = m.CheckRepo(ctx, commands.CheckRepo{Meta: systems(m.id), Repo: c.Repo, Checks: c.Checks})
	require.NoError(t, err)
	require.True(t, done.Idle, "the findings are as before")
	_, err = m.PauseRepo(ctx, commands.PauseRepo{Meta: systems(m.id), Repo: c.Repo, Reason: "The host answers 401.",
		Code: events.PauseCredential})
	require.NoError(t, err)
	hook := newID()
	_, former, err := m.SetRepoHook(ctx, commands.SetRepoHook{Meta: m.maintainer.in(m.id), Repo: c.Repo, Hook: hook})
	require.NoError(t, err)
	require.Zero(t, former)
	workspace, owner, err := m.log.Holder(ctx, events.HookKey(hook))
	require.NoError(t, err)
	require.Equal(t, []events.ID{m.id, c.Repo}, []events.ID{workspace, owner})
	value := newID()
	_, former, err = m.ReplaceRepoCredential(ctx, commands.ReplaceRepoCredential{
		Meta: m.maintainer.in(m.id), Repo: c.Repo, Which: events.WriteCredential, Value: value,
	})
	require.NoError(t, err)
	require.Equal(t, c.Credential, former)

	repo, err = m.Repo(ctx, m.id, c.Repo)
	require.NoError(t, err)
	_, paused := repo.Paused()
	require.False(t, paused)
	require.Equal(t, []int{2, 5}, []int{repo.Settings().MaxActive, kept.Settings().MaxActive}, "a copy stays as it is")
	require.Equal(t, value, repo.Credential(events.WriteCredential))

	repo, err = m.Repo(ctx, newID(), c.Repo)
	require.NoError(t, err)
	require.False(t, repo.Known(), "in another workspace")
	repo, err = m.Repo(ctx, m.id, m.queue(t, 7))
	require.NoError(t, err)
	require.False(t, repo.Known(), "a run is none")
}

// One connected repository of a workspace has an address, whoever connects it where.
func TestRepoAddressIsTakenOnce(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	ctx, web := t.Context(), m.connection("acme/web")
	_, err := m.ConnectRepo(ctx, web)
	require.NoError(t, err)
	again := m.connection("acme/web")
	spelled := m.connection("acme/web")
	spelled.Host.Clone = strings.TrimSuffix(strings.ToUpper(spelled.Host.Clone), ".GIT")
	spelled.Host.Clone = strings.Replace(spelled.Host.Clone, "HTTPS://", "https://", 1)
	_, err = m.ConnectRepo(ctx, spelled)
	require.ErrorIs(t, err, aggregates.ErrRepoConnected)
	for _, h := range []replica{m.replica, m.other} {
		_, err = h.ConnectRepo(ctx, again)
		require.ErrorIs(t, err, aggregates.ErrRepoConnected)
	}
	elsewhere := m.system.team(t)
	theirs := elsewhere.connection("acme/web")
	_, err = m.ConnectRepo(ctx, theirs)
	require.NoError(t, err)

	api := m.connection("acme/api")
	_, err = m.ConnectRepo(ctx, api)
	require.NoError(t, err)
	rename := commands.RenameRepo{Meta: systems(m.id), Repo: api.Repo, Name: "acme/web", Host: hostOf("acme/web")}
	_, err = m.RenameRepo(ctx, rename)
	require.ErrorIs(t, err, aggregates.ErrRepoConnected)
	rename.Repo, rename.Name, rename.Host = web.Repo, "acme/site", hostOf("acme/site")
	_, err = m.RenameRepo(ctx, rename)
	require.NoError(t, err)
	_, err = m.ConnectRepo(ctx, again)
	require.NoError(t, err, "the former address is free")
	taken := m.connection("acme/site")
	_, err = m.ConnectRepo(ctx, taken)
	require.ErrorIs(t, err, aggregates.ErrRepoConnected)

	end := commands.DisconnectRepo{Meta: m.owner.in(m.id), Repo: web.Repo, Name: "acme/web"}
	_, _, err = m.DisconnectRepo(ctx, end)
	require.ErrorIs(t, err, aggregates.ErrRepoName)
	end.Name = "acme/site"
	_, former, err := m.DisconnectRepo(ctx, end)
	require.NoError(t, err)
	require.Equal(t, []events.ID{web.Credential, {}, {}}, former)
	_, err = m.ConnectRepo(ctx, taken)
	require.NoError(t, err)
}

// Only those who may manage repositories do, and the service itself.
func TestWhoManagesRepos(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	ctx, c := t.Context(), m.connection("acme/web")
	for who, want := range map[*person]error{
		&m.viewer: aggregates.RoleRequired(events.ManageRepos), &m.old: aggregates.RoleRequired(events.ManageRepos),
		&m.nobody: fault.ErrTenantNotFound,
	} {
		c.Meta = who.in(m.id)
		_, err := m.ConnectRepo(ctx, c)
		require.ErrorIs(t, err, want)
	}
	c.Meta = systems(m.id)
	_, err := m.ConnectRepo(ctx, c)
	require.NoError(t, err)
	_, err = m.ResumeRepo(ctx, commands.ResumeRepo{Meta: m.viewer.in(m.id), Repo: c.Repo})
	require.ErrorIs(t, err, aggregates.RoleRequired(events.ManageRepos))
}
