package commands_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/commands"
	"svc/events"
	"svc/fault"
)

// A simulation does random things to the membership of one workspace, several at the same moment
// and through two processes. It learns what happened only from the log.
type simulation struct {
	*team
	random         *rand.Rand
	people         []person                      // some are members at times
	addressHolders map[string]events.ID          // who has verified an address
	seq            int64                         // up to where the log was read
	members        map[events.ID]memberState     // by member
	invitations    map[events.ID]invitationState // by invitation
	endings        map[string]int                // of invitations, by kind
}

type memberState struct {
	User         events.ID
	Role         events.Role
	ApproveLoops *bool
}

type invitationState struct {
	Email   string
	Role    events.Role
	Status  string
	Expires time.Time
	Sender  events.ID
}

// TestMembershipMachine tries to leave a workspace without an Owner, to join with an
// invitation that was used, has expired or is somebody else's, or to make the views differ
// from the fold of the log.
func TestMembershipMachine(t *testing.T) {
	t.Parallel()
	sys := newSystem(t)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newSimulation(t, sys, seed)
			c.check(t)
			for i := 0; i < 300 || !c.isCovered() && i < 3000; i++ { // which command wins a race varies, and so does how much happens
				c.step(t)
				c.check(t)
			}
			require.True(t, c.isCovered(), c.endings)
		})
	}
}

// isCovered reports whether invitations have ended often enough in every way.
func (c *simulation) isCovered() bool {
	return min(c.endings["accepted"], c.endings["rejected"], c.endings["revoked"]) > 3
}

func newSimulation(t *testing.T, sys *system, seed uint64) *simulation {
	c := &simulation{
		team: sys.team(t), random: rand.New(rand.NewPCG(seed, 3)), addressHolders: map[string]events.ID{},
		members: map[events.ID]memberState{}, invitations: map[events.ID]invitationState{}, endings: map[string]int{},
	}
	c.people = []person{c.owner, c.maintainer, c.viewer, c.old}
	for range 6 {
		name := "p" + newID().String()[24:]
		r := c.registered(t, name, name+"@acme.example")
		c.people = append(c.people, person{r.User, newID(), r.Emails[0]})
		c.addressHolders[r.Emails[0]] = r.User
	}
	return c
}

// step moves the clock and lets up to four people act at the same time.
func (c *simulation) step(t *testing.T) {
	c.advanceClock()
	asks := make([]func(context.Context) (commands.Result, error), 1+c.random.IntN(4))
	for i := range asks {
		asks[i] = c.pickCommand([]replica{c.replica, c.other}[c.random.IntN(2)])
	}
	errs := make([]error, len(asks))
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, ask := range asks {
		all.Go(func() {
			<-start
			_, errs[i] = ask(t.Context())
		})
	}
	close(start)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			f := fault.As(err)
			require.NotNil(t, f, err)
			require.Contains(t, []fault.Kind{fault.Denied, fault.Conflict, fault.NotFound, fault.Invalid}, f.Kind, err)
		}
	}
}

// advanceClock moves the clock, sometimes to the second in which an invitation expires, or the one
// before or after it.
func (c *simulation) advanceClock() {
	now, by := c.clock.now(), time.Duration(c.random.IntN(5))*time.Hour
	for _, p := range c.invitations {
		if p.Status == "pending" && p.Expires.After(now) && c.random.IntN(8) == 0 {
			by = max(0, p.Expires.Sub(now)+time.Duration(c.random.IntN(3)-1)*time.Second)
			break
		}
	}
	c.clock.move(by)
}

func pick[T any](c *simulation, list []T) T { return list[c.random.IntN(len(list))] }

// member picks a member, or an unknown id.
func (c *simulation) member() events.ID {
	list := []events.ID{newID()}
	for id := range c.members {
		list = append(list, id)
	}
	slices.SortFunc(list, func(a, b events.ID) int { return slices.Compare(a[:], b[:]) })
	return pick(c, list)
}

// invitation picks an invitation, usually a pending one.
func (c *simulation) invitation() events.ID {
	var open []events.ID
	all := []events.ID{newID()}
	for id, p := range c.invitations {
		all = append(all, id)
		if p.Status == "pending" {
			open = append(open, id)
		}
	}
	if len(open) > 0 && c.random.IntN(5) > 0 {
		return pick(c, open)
	}
	return pick(c, all)
}

// pickCommand picks a command, and who sends it to a process.
func (c *simulation) pickCommand(r replica) func(context.Context) (commands.Result, error) {
	by, role := pick(c, c.people), pick(c, []events.Role{events.Owner, events.Maintainer, events.Viewer, events.Legacy})
	if c.random.IntN(3) == 0 {
		by = c.pickOwner()
	}
	meta, invitation := by.in(c.id), c.invitation()
	by.member = newID()
	if p, ok := c.invitations[invitation]; ok && c.random.IntN(3) > 0 { // usually the invitee
		by.user, by.email = c.addressHolders[p.Email], p.Email
	}
	switch c.random.IntN(8) {
	case 0, 1:
		u := commands.UpdateMember{Meta: meta, Member: c.member()}
		if c.random.IntN(4) > 0 {
			u.Role = &role
		}
		if c.random.IntN(3) == 0 {
			u.ApproveLoops = ptr(c.random.IntN(2) == 0)
		}
		return func(ctx context.Context) (commands.Result, error) { return r.UpdateMember(ctx, u) }
	case 2:
		m := commands.RemoveMember{Meta: meta, Member: c.member()}
		return func(ctx context.Context) (commands.Result, error) { return r.RemoveMember(ctx, m) }
	case 3, 4:
		s := commands.SendInvitation{Meta: meta, Invitation: newID(), Email: pick(c, c.people[4:]).email, Role: role}
		return func(ctx context.Context) (commands.Result, error) { return r.SendInvitation(ctx, s) }
	case 5:
		if c.random.IntN(2) == 0 {
			v := commands.RevokeInvitation{Meta: meta, Invitation: invitation}
			return func(ctx context.Context) (commands.Result, error) { return r.RevokeInvitation(ctx, v) }
		}
		s := commands.ResendInvitation{Meta: meta, Invitation: invitation}
		return func(ctx context.Context) (commands.Result, error) { return r.ResendInvitation(ctx, s) }
	case 6:
		a := reject(by, c.id, invitation)
		return func(ctx context.Context) (commands.Result, error) { return r.RejectInvitation(ctx, a) }
	}
	a := accept(by, c.id, invitation)
	return func(ctx context.Context) (commands.Result, error) { return r.AcceptInvitation(ctx, a) }
}

func (c *simulation) pickOwner() person {
	for _, p := range c.people {
		for _, place := range c.members {
			if place.User == p.user && place.Role == events.Owner {
				return p
			}
		}
	}
	return c.people[0]
}

// check folds the new records of the log, and checks the rules and the views against them.
func (c *simulation) check(t *testing.T) {
	t.Helper()
	for _, r := range c.records(t, c.id, c.seq+1) {
		require.Equal(t, c.seq+1, r.Seq)
		c.seq = r.Seq
		c.apply(t, r)
		if r.Seq > 1 { // the second event of the first commit adds the Owner
			require.True(t, c.hasOwner(), "event %d, %s, left no Owner", r.Seq, r.Event.Kind())
		}
	}
	for id, p := range c.invitations {
		require.True(t, p.Status != "pending" || !c.clock.now().Before(p.Expires) || c.maySend(p),
			"%s waits though its sender could no longer send it", id)
	}
	require.Equal(t, c.members, c.membersInView(t))
	require.Equal(t, c.invitations, c.invitationsInView(t))
}

func (c *simulation) hasOwner() bool {
	for _, p := range c.members {
		if p.Role == events.Owner {
			return true
		}
	}
	return false
}

// apply folds one record.
func (c *simulation) apply(t *testing.T, r events.Record) {
	switch e := r.Event.(type) {
	case events.MemberJoined:
		for _, p := range c.members {
			require.NotEqual(t, e.User, p.User, "joined twice")
		}
		c.members[e.Member] = memberState{User: e.User, Role: e.Role}
	case events.MemberRoleChanged:
		p := c.members[e.Member]
		require.Equal(t, e.From, p.Role)
		p.Role = e.To
		c.members[e.Member] = p
	case events.MemberApproveLoopsSet:
		p := c.members[e.Member]
		p.ApproveLoops = &e.To
		c.members[e.Member] = p
	case events.MemberLeft:
		delete(c.members, e.Member)
	case events.MemberRemoved:
		delete(c.members, e.Member)
	case events.InvitationSent:
		c.invitations[e.Invitation] = invitationState{Email: e.Email, Role: e.Role, Status: "pending", Expires: e.ExpiresAt, Sender: r.Actor.ID}
	case events.InvitationResent:
		p := c.invitations[e.Invitation]
		require.Equal(t, "pending", p.Status)
		p.Expires, p.Sender = e.ExpiresAt, r.Actor.ID
		c.invitations[e.Invitation] = p
	case events.InvitationRevoked:
		c.end(t, e.Invitation, "revoked")
	case events.InvitationRejected:
		require.Equal(t, c.addressHolders[e.Email], e.User)
		c.end(t, e.Invitation, "rejected")
	case events.InvitationAccepted:
		require.Equal(t, c.addressHolders[e.Email], e.User, "accepted by somebody else")
		require.True(t, r.At.Before(c.invitations[e.Invitation].Expires), "accepted too late")
		require.True(t, c.maySend(c.invitations[e.Invitation]), "accepted though its sender could no longer send it")
		c.end(t, e.Invitation, "accepted")
	}
}

// maySend reports whether the sender of an invitation may send it now.
func (c *simulation) maySend(p invitationState) bool {
	for _, place := range c.members {
		if place.User == p.Sender {
			return place.Role == events.Owner || place.Role == events.Maintainer && p.Role != events.Owner
		}
	}
	return false
}

func (c *simulation) end(t *testing.T, id events.ID, how string) {
	p := c.invitations[id]
	require.Equal(t, "pending", p.Status, "%s once it was over", how)
	p.Status = how
	c.invitations[id] = p
	c.endings[how]++
}

func (c *simulation) membersInView(t *testing.T) map[events.ID]memberState {
	rows, _ := c.db.Query(t.Context(), `select member_id, user_id, role, approve_loops from members where workspace_id = $1`, c.id)
	list := map[events.ID]memberState{}
	var id events.ID
	var p memberState
	_, err := pgx.ForEachRow(rows, []any{&id, &p.User, &p.Role, &p.ApproveLoops}, func() error { list[id] = p; return nil })
	require.NoError(t, err)
	return list
}

func (c *simulation) invitationsInView(t *testing.T) map[events.ID]invitationState {
	rows, _ := c.db.Query(t.Context(),
		`select invitation_id, email, role, status, expires_at, inviter_id from invitations where workspace_id = $1`, c.id)
	list := map[events.ID]invitationState{}
	var id events.ID
	var p invitationState
	_, err := pgx.ForEachRow(rows, []any{&id, &p.Email, &p.Role, &p.Status, &p.Expires, &p.Sender}, func() error {
		p.Expires = p.Expires.UTC()
		list[id] = p
		return nil
	})
	require.NoError(t, err)
	return list
}
