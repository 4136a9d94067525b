package commands_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/aggregates/farm"
	"svc/commands"
	"svc/events"
	"svc/fault"
	"svc/projections"
)

func TestCreateWorkspace(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ann, w := newPerson("ann"), newID()
	create := commands.CreateWorkspace{Meta: ann.in(w), Member: ann.member, Email: ann.email, Person: "Ann Lee", Name: "Acme", Slug: "acme"}
	done, err := s.CreateWorkspace(t.Context(), create)
	require.NoError(t, err)
	require.EqualValues(t, 2, done.Position)
	s.requireAdded(t, w, 0, events.WorkspaceCreated{Name: "Acme", Slug: "acme"},
		events.MemberJoined{Member: ann.member, User: ann.user, Email: ann.email, Name: "Ann Lee", Role: events.Owner})
	holder, _, err := s.log.Holder(t.Context(), events.SlugKey("acme"))
	require.NoError(t, err)
	require.Equal(t, w, holder)

	done, err = s.other.CreateWorkspace(t.Context(), create)
	require.NoError(t, err, "it is there already")
	require.EqualValues(t, 2, done.Position)
	require.EqualValues(t, 2, s.head(t, w))

	for name, test := range map[string]struct {
		change func(*commands.CreateWorkspace)
		want   error
	}{
		"the slug of another": {func(c *commands.CreateWorkspace) {}, aggregates.ErrSlugTaken},
		"no slug":             {func(c *commands.CreateWorkspace) { c.Slug = "" }, fault.ErrValidation},
		"no name":             {func(c *commands.CreateWorkspace) { c.Name, c.Slug = "", "free" }, fault.ErrValidation},
	} {
		c := create
		c.Workspace = newID()
		test.change(&c)
		_, err := s.CreateWorkspace(t.Context(), c)
		require.ErrorIs(t, err, test.want, name)
		require.Zero(t, s.head(t, c.Workspace), name)
	}
}

func TestRegisterUser(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	register := func(name string, emails ...string) commands.RegisterUser {
		p := newPerson(name)
		return commands.RegisterUser{
			Meta: p.in(newID()), User: p.user, Member: p.member, Name: name, Emails: emails,
			WorkspaceName: name + "'s", WorkspaceSlug: name,
		}
	}
	ann := register("ann", "ann@acme.example", "ann@home.example")
	done, err := s.RegisterUser(t.Context(), ann)
	require.NoError(t, err)
	require.EqualValues(t, 3, done.Position)
	require.ElementsMatch(t, []events.Event{
		events.UserRegistered{User: ann.User, Name: "ann", Emails: ann.Emails},
		events.WorkspaceCreated{Name: "ann's", Slug: "ann"},
		events.MemberJoined{Member: ann.Member, User: ann.User, Email: "ann@acme.example", Name: "ann", Role: events.Owner},
	}, s.history(t, ann.Workspace, 1))
	for _, address := range ann.Emails {
		workspace, owner, err := s.log.Holder(t.Context(), events.EmailKey(address))
		require.NoError(t, err)
		require.Equal(t, [2]events.ID{ann.Workspace, ann.User}, [2]events.ID{workspace, owner})
	}

	again, err := s.other.RegisterUser(t.Context(), ann)
	require.NoError(t, err)
	require.EqualValues(t, 3, again.Position)

	for name, test := range map[string]struct {
		register commands.RegisterUser
		change   func(*commands.RegisterUser)
		want     error
	}{
		"the primary address of another": {register: register("bob", "ann@acme.example"), want: commands.ErrEmailTaken},
		"any address of another":         {register: register("bob", "bob@acme.example", "ann@home.example"), want: commands.ErrEmailTaken},
		"the slug of another": {
			register: register("bob", "bob@acme.example"),
			change:   func(c *commands.RegisterUser) { c.WorkspaceSlug = "ann" }, want: aggregates.ErrSlugTaken,
		},
		"a slug that is none": {
			register: register("bob", "bob@acme.example"),
			change:   func(c *commands.RegisterUser) { c.WorkspaceSlug = "B" }, want: fault.ErrValidation,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(&test.register)
			}
			_, err := s.RegisterUser(t.Context(), test.register)
			require.ErrorIs(t, err, test.want)
			require.Zero(t, s.head(t, test.register.Workspace))
		})
	}
	_, err = s.RegisterUser(t.Context(), register("cid"))
	require.ErrorContains(t, err, "no verified address")
	_, err = s.RegisterUser(t.Context(), register("bob", "bob@acme.example"))
	require.NoError(t, err, "what was refused keeps nothing")
}

func (m *team) deleteWorkspace(t *testing.T, r replica) {
	t.Helper()
	_, err := r.DeleteWorkspace(t.Context(), commands.DeleteWorkspace{Meta: m.owner.in(m.id), Name: "Acme"})
	require.NoError(t, err)
}

// rowsOf returns the names of the views in which a workspace is found.
func (s *system) rowsOf(t *testing.T, workspace events.ID) (found []string) {
	t.Helper()
	for _, table := range []string{"workspaces", "deleted_workspaces"} {
		var n int
		require.NoError(t, s.db.QueryRow(t.Context(), `select count(*) from `+table+` where workspace_id = $1`, workspace).Scan(&n))
		if n > 0 {
			found = append(found, table)
		}
	}
	return found
}

func TestDeleteWorkspace(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	_, token := m.account(t, "ci-bot")
	members := projections.Members{DB: m.db}
	slug := func() string {
		found, err := projections.ServiceAccounts{DB: m.db}.Tokens(t.Context(), []events.Fingerprint{token.Fingerprint()})
		require.NoError(t, err)
		return found[token.Fingerprint()].Slug
	}
	require.NotEmpty(t, slug())
	m.deleteWorkspace(t, m.replica)
	_, ok, err := members.Membership(t.Context(), m.id, m.owner.user)
	require.NoError(t, err)
	require.False(t, ok, "nobody is a member")
	require.Empty(t, slug(), "a token belongs nowhere")
	require.Equal(t, []string{"deleted_workspaces"}, m.rowsOf(t, m.id))
	deleted, err := m.other.IsDeleted(t.Context(), m.id)
	require.NoError(t, err)
	require.True(t, deleted)
	list, err := projections.Workspaces{DB: m.db}.Restorable(t.Context(), m.owner.user, 10)
	require.NoError(t, err)
	require.Equal(t, []projections.DeletedWorkspace{{ID: m.id, Name: "Acme", Slug: "acme-" + m.id.String()[30:], DeletedAt: list[0].DeletedAt,
		DeletedBy: m.owner.email, PurgeAt: list[0].PurgeAt}}, list)
	require.True(t, list[0].PurgeAt.Equal(epoch.Add(events.RestorableFor)))
	for _, p := range []person{m.maintainer, m.nobody} {
		list, err = projections.Workspaces{DB: m.db}.Restorable(t.Context(), p.user, 10)
		require.NoError(t, err)
		require.Empty(t, list)
	}
	_, err = m.CreateWorkspace(t.Context(), commands.CreateWorkspace{Meta: m.nobody.in(newID()), Member: newID(), Email: m.nobody.email,
		Name: "Acme", Slug: "acme-" + m.id.String()[30:]})
	require.ErrorIs(t, err, aggregates.ErrSlugTaken)

	_, err = m.other.RestoreWorkspace(t.Context(), commands.RestoreWorkspace{Meta: m.owner.in(m.id)})
	require.NoError(t, err)
	require.NotEmpty(t, slug())
	require.Equal(t, []string{"workspaces"}, m.rowsOf(t, m.id))
	require.Equal(t, events.Owner, m.roles(t, m.id)[m.owner.user])
	_, err = m.replica.RestoreWorkspace(t.Context(), commands.RestoreWorkspace{Meta: m.owner.in(m.id)})
	require.NoError(t, err, "it is restored already")
}

// A person's account is in the log of their own workspace.
func TestPersonalWorkspaceIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	p, err := s.signedIn(t, s.replica, "github", "1", "ann", "ann@acme.example")
	require.NoError(t, err)
	var name string
	require.NoError(t, s.db.QueryRow(t.Context(), `select name from workspaces where workspace_id = $1`, p.Home).Scan(&name))
	_, err = s.DeleteWorkspace(t.Context(), commands.DeleteWorkspace{Meta: p.Meta, Name: name})
	require.ErrorIs(t, err, aggregates.ErrPersonal)
	require.Equal(t, []string{"workspaces"}, s.rowsOf(t, p.Home))
}

// Of a deletion and a restoration at the end of the time, one happens.
func TestPurgeAndRestoreAtOnce(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	m.deleteWorkspace(t, m.replica)
	_, err := m.PurgeWorkspace(t.Context(), commands.PurgeWorkspace{Meta: systems(m.id)})
	require.ErrorContains(t, err, "not say that it is due")
	late := newReplica(t, m.db.Config().ConnString(), &clock{at: epoch.Add(events.RestorableFor)})
	var restored, purged error
	var both sync.WaitGroup
	both.Go(func() { _, purged = late.PurgeWorkspace(t.Context(), commands.PurgeWorkspace{Meta: systems(m.id)}) })
	both.Go(func() {
		_, restored = m.RestoreWorkspace(t.Context(), commands.RestoreWorkspace{Meta: m.owner.in(m.id)})
	})
	both.Wait()
	require.NotEqual(t, restored == nil, purged == nil)
	if restored != nil {
		require.ErrorIs(t, restored, fault.ErrTenantNotFound)
	}
	_, err = m.other.RestoreWorkspace(t.Context(), commands.RestoreWorkspace{Meta: m.owner.in(m.id)})
	require.Equal(t, restored, err, "and so it stays")
}

// Whatever goes on in a workspace ends with it, also what the service does by itself.
func TestWorkEndsWithItsWorkspace(t *testing.T) {
	t.Parallel()
	m := newTeam(t)
	runner, account := m.connectRunner(t, 0), m.serviceAccount(t, "farmer", events.SubmitJobs)
	submit := submitCommand(t, account.in(m.id))
	submit.Token = account.token.Fingerprint()
	jobs := []events.ID{m.submitJob(t), submit.Job}
	_, err := m.SubmitJob(t.Context(), submit)
	require.NoError(t, err)
	run := m.queue(t, 7)
	_, err = m.StopRun(t.Context(), commands.StopRun{Meta: systems(m.id), Run: run})
	require.NoError(t, err)
	p, err := m.Progress(t.Context(), m.id, run)
	require.NoError(t, err)
	require.False(t, p.Over(), "the workspace is not deleted")

	m.deleteWorkspace(t, m.other)
	for _, job := range jobs {
		require.ErrorIs(t, m.lease(m.replica, job, runner, 0), farm.ErrJobDropped)
	}
	for range 2 {
		_, err = m.StopRun(t.Context(), commands.StopRun{Meta: systems(m.id), Run: run})
		require.NoError(t, err)
	}
	p, err = m.Progress(t.Context(), m.id, run)
	require.NoError(t, err)
	require.Equal(t, events.RunStatusCancelled, p.Status)
}
