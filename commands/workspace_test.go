package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/fault"
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
