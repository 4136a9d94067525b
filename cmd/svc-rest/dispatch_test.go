package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/config"
	"svc/credentials"
	"svc/events"
	"svc/events/store"
	"svc/farm/dispatch"
	"svc/projections"
	"svc/test/pgtest"
	"svc/vault"
)

// Jobs clone from where the log says, with the credential that reads. A repository that only runs name is cloned by
// its name.
func TestCloneURL(t *testing.T) {
	db := pgtest.New(t)
	log := store.New(db, projections.Inline(), func(events.ID, int64) {})
	t.Cleanup(log.Close)
	ring, err := vault.NewRing([]config.Secret{"the-key-that-the-database-does-not-have"})
	require.NoError(t, err)
	handler := commands.New(log, time.Now)
	of := credentials.Store{Vault: vault.Secrets{DB: db, Ring: ring}, Repo: handler.Repo}
	clone := cloneURL(of, func(name string) string { return "https://code.example/" + name + ".git" })
	by := commands.Meta{Workspace: events.NewID(time.Now()), Envelope: events.Envelope{Actor: events.Actor{Type: events.BySystem}}}
	push, read, repo := events.NewID(time.Now()), events.NewID(time.Now()), events.NewID(time.Now())
	for value, token := range map[events.ID]string{push: "pushes", read: "rea@d/s"} {
		require.NoError(t, of.Put(t.Context(), by.Workspace, value, token))
	}
	_, err = handler.ConnectRepo(t.Context(), commands.ConnectRepo{
		Meta: by, Repo: repo, Name: "acme/web", Credential: push, ReadCredential: read,
		Host:     events.RepoHost{Kind: events.HostGit, Clone: "https://git.acme.example:8443/acme/web.git"},
		Settings: events.RepoSettings{Branch: "main"},
	})
	require.NoError(t, err)
	at := func(workspace, id events.ID) (string, error) { return clone(t.Context(), workspace, id, "eve/trap") }
	address, err := at(by.Workspace, repo)
	require.NoError(t, err)
	require.Equal(t, "https://x-access-token:rea%40d%2Fs@git.acme.example:8443/acme/web.git", address)
	address, err = at(by.Workspace, push)
	require.NoError(t, err)
	require.Equal(t, "https://code.example/eve/trap.git", address, "only runs name it")
	address, err = at(events.NewID(time.Now()), repo)
	require.NoError(t, err)
	require.Equal(t, "https://code.example/eve/trap.git", address, "in another workspace")

	require.NoError(t, of.Delete(t.Context(), by.Workspace, read))
	_, err = at(by.Workspace, repo)
	var unclonable *dispatch.UnclonableError
	require.ErrorAs(t, err, &unclonable)
	require.Equal(t, "the credential of its repository cannot be opened: replace it", unclonable.Reason)
	_, _, err = handler.ReplaceRepoCredential(t.Context(), commands.ReplaceRepoCredential{Meta: by, Repo: repo, Which: events.ReadCredential})
	require.NoError(t, err)
	address, err = at(by.Workspace, repo)
	require.NoError(t, err)
	require.Equal(t, "https://git.acme.example:8443/acme/web.git", address, "anybody may read it")
	_, _, err = handler.DisconnectRepo(t.Context(), commands.DisconnectRepo{Meta: by, Repo: repo, Name: "acme/web"})
	require.NoError(t, err)
	_, err = at(by.Workspace, repo)
	require.ErrorAs(t, err, &unclonable)
	require.Equal(t, "its repository is not connected any more", unclonable.Reason)
}
