package commands

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"reflect"
	"time"

	"svc/events"
	"svc/fault"
)

// Daily limits what may be done in a day of what reaches others or stays for ever, as every event
// does. Days begin at midnight UTC. 0 means no limit. Nobody can use up what others may do: there
// is no limit of what an address is sent by all together.
type Daily struct {
	Workspaces            int // created by a person
	ServiceAccounts       int // created by a person, in all workspaces
	Rotations             int // of tokens of service accounts, by a person
	Enrollments           int // of runners, created by a person
	Invitations           int // sent or resent by a person
	InvitationsPerAddress int // sent or resent to one address by a person, and by a workspace
	Changes               int // of other kinds that can be repeated without end, by a person
	SignIns               int // of a person, and changes of their profile at a code host
	Counts                Counts
}

// Counts counts for all processes together how often something was done on a day. The
// subject is a person, or stands for an address and who sends to it.
type Counts interface {
	// Take adds one. ok is false, and nothing is added, if the count has reached most.
	Take(ctx context.Context, subject events.ID, what string, day time.Time, most int) (ok bool, err error)
	// GiveBack subtracts one.
	GiveBack(ctx context.Context, subject events.ID, what string, day time.Time) error
}

// Limit sets the daily limits. Call it before the first command.
func (h *Handler) Limit(d Daily) { h.daily = d }

// A charge is one unit of somebody's quota that a command needs.
type charge struct {
	subject events.ID // a person, or stands for an address and who sends to it
	limit   int       // 0: unlimited
	what    string
	refusal string // format of the message, with limit

	reserved bool
}

const tomorrow = " The next day begins at midnight UTC."

// A personal limit is one of what a person does by certain commands.
type personal struct {
	limit         func(Daily) int // nil: none
	what, refusal string
}

var (
	workspaces = &personal{func(d Daily) int { return d.Workspaces },
		"workspaces", "You have made %d workspaces today, as many as a person may in a day."}
	serviceAccounts = &personal{func(d Daily) int { return d.ServiceAccounts },
		"service accounts", "You have made %d service accounts today, as many as a person may in a day."}
	rotations = &personal{func(d Daily) int { return d.Rotations },
		"rotations", "You have rotated %d tokens of service accounts today, as many as a person may in a day."}
	enrollments = &personal{func(d Daily) int { return d.Enrollments },
		"enrollments", "You have created %d enrollments of runners today, as many as a person may in a day."}
	invitations = &personal{func(d Daily) int { return d.Invitations },
		"invitations", "You have sent %d invitations today, as many as a person may in a day."}
	signIns = &personal{func(d Daily) int { return d.SignIns },
		"sign-ins", "You have signed in %d times today, as many as a person may in a day."}
	changes = &personal{func(d Daily) int { return d.Changes },
		"changes", "You have made %d changes today, as many as a person may in a day."}

	onceEach = &personal{} // can be done once for each thing that another command was charged for
	ending   = &personal{} // the same, and must always be possible: it ends something
	byVolume = &personal{} // callers limit the bytes that a workspace submits, of which a small job counts 1 KiB
	signUp   = &personal{} // an account at a code host registers once
)

// personalLimits has the limits of a person's commands. Those that it lacks have the limit of changes, so that
// no command can be repeated without end. Commands and not events decide, because a registration creates a
// workspace too and needs no unit.
var personalLimits = map[reflect.Type]*personal{
	reflect.TypeFor[CreateWorkspace]():      workspaces,
	reflect.TypeFor[CreateServiceAccount](): serviceAccounts,
	reflect.TypeFor[RotateServiceAccount](): rotations,
	reflect.TypeFor[MintEnrollment]():       enrollments,
	reflect.TypeFor[SendInvitation]():       invitations,
	reflect.TypeFor[ResendInvitation]():     invitations,
	reflect.TypeFor[RecordSignIn]():         signIns,
	reflect.TypeFor[RefreshUser]():          signIns,

	reflect.TypeFor[AcceptInvitation]():     onceEach,
	reflect.TypeFor[RejectInvitation]():     onceEach,
	reflect.TypeFor[AnswerDecision]():       onceEach,
	reflect.TypeFor[RefreshMember]():        onceEach,
	reflect.TypeFor[RemoveMember]():         ending,
	reflect.TypeFor[RevokeInvitation]():     ending,
	reflect.TypeFor[WithdrawEnrollment]():   ending,
	reflect.TypeFor[RevokeServiceAccount](): ending,
	reflect.TypeFor[RevokeRunner]():         ending,
	reflect.TypeFor[RemoveFarmSecret]():     ending,
	reflect.TypeFor[CancelRun]():            ending,
	reflect.TypeFor[CancelJob]():            ending,
	reflect.TypeFor[PauseRepo]():            ending,
	reflect.TypeFor[DisconnectRepo]():       ending,
	reflect.TypeFor[EndSessions]():          ending,
	reflect.TypeFor[DeleteWorkspace]():      ending,
	reflect.TypeFor[SubmitJob]():            byVolume,
	reflect.TypeFor[RetryJob]():             byVolume,
	reflect.TypeFor[RegisterUser]():         signUp,
}

// charges returns the units that a person's command in a workspace needs, given the events that it
// will append.
func (d Daily) charges(person, workspace events.ID, request any, list []events.Event) (out []*charge) {
	add := func(subject events.ID, limit int, what, refusal string) {
		if limit != 0 {
			out = append(out, &charge{subject: subject, limit: limit, what: what, refusal: refusal})
		}
	}
	if p := cmp.Or(personalLimits[reflect.TypeOf(request)], changes); p.limit != nil {
		add(person, p.limit(d), p.what, p.refusal)
	}
	for _, e := range list {
		var address string
		switch e := e.(type) {
		case events.InvitationSent:
			address = e.Email
		case events.InvitationResent:
			address = e.Email
		default:
			continue
		}
		add(toAddress(address, person), d.InvitationsPerAddress, "invitations to an address",
			"You have sent %d invitations to this address today, as many as a person may in a day.")
		add(toAddress(address, workspace), d.InvitationsPerAddress, "invitations to an address",
			"This workspace has sent %d invitations to this address today, as many as a workspace may in a day.")
	}
	return out
}

// toAddress returns the subject under which is counted what a person or a workspace sends to an
// address. It depends on the address itself, because it may have no account here, or several.
func toAddress(address string, sender events.ID) events.ID {
	sum := sha256.Sum256([]byte(sender.String() + "/" + events.EmailKey(address)))
	return events.ID(sum[:len(events.ID{})])
}

// A quota holds the units that one command reserves.
type quota struct {
	daily     Daily
	actor     events.Actor
	workspace events.ID
	request   any

	decided bool
	charges []*charge
	day     time.Time
}

func (h *Handler) newQuota(m Meta, request any) *quota {
	return &quota{daily: h.daily, actor: m.Actor, workspace: m.Workspace, request: request}
}

// reserve reserves the units after the command has decided and before it is stored, so that
// commands refused for other reasons count for nothing. Units stay reserved if the command
// decides again.
func (q *quota) reserve(ctx context.Context, at time.Time, writes []events.Write) error {
	if !q.decided && q.daily.Counts != nil && q.actor.Type == events.ByUser {
		var list []events.Event
		for _, write := range writes {
			list = append(list, write.Events...)
		}
		q.decided, q.day = true, at.UTC().Truncate(24*time.Hour)
		q.charges = q.daily.charges(q.actor.ID, q.workspace, q.request, list)
	}
	for _, c := range q.charges {
		if c.reserved {
			continue
		}
		if err := q.count(ctx, c); err != nil {
			return err
		}
		if !c.reserved {
			wait := q.day.Add(24 * time.Hour).Sub(at)
			return fault.New(fault.RateLimited, "rate_limited", c.refusal+tomorrow, c.limit).After(wait)
		}
	}
	return ctx.Err()
}

// countTimeout is the time limit of an operation on Counts.
const countTimeout = 2 * time.Second

// count continues if the caller goes away: a cancelled operation may have been carried out,
// and would never be given back.
func (q *quota) count(ctx context.Context, c *charge) (err error) {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	c.reserved, err = q.daily.Counts.Take(within, c.subject, c.what, q.day, c.limit)
	return err
}

// settle gives units back if the command failed or was a repetition. A process that dies
// first leaves one too many counted, until the day ends.
func (q *quota) settle(ctx context.Context, done Result, err error) {
	if err == nil && !done.Replayed || errors.Is(err, ErrOutcomeUnknown) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	for _, c := range q.charges {
		if c.reserved {
			// An error is ignored: the command has its answer, and one too many stays counted until midnight.
			_ = q.daily.Counts.GiveBack(ctx, c.subject, c.what, q.day)
		}
	}
}
