package commands

import (
	"crypto/sha256"

	"svc/commands/work"
	"svc/events"
)

// Daily limits what may be done in a day of what reaches others or stays for ever, as every event
// does. 0 means no limit. Nobody can use up what others may do: there
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
	Counts                work.Counts
}

// Limit sets the daily limits. Call it before the first command.
func (h *Handler) Limit(d Daily) { h.Meter(d.Counts, d.charges) }

// A limit is how often a person may do what certain commands do.
type limit struct {
	most          func(Daily) int // nil: without end
	what, refusal string
}

var (
	workspaces = &limit{func(d Daily) int { return d.Workspaces },
		"workspaces", "You have made %d workspaces today, as many as a person may in a day."}
	serviceAccounts = &limit{func(d Daily) int { return d.ServiceAccounts },
		"service accounts", "You have made %d service accounts today, as many as a person may in a day."}
	rotations = &limit{func(d Daily) int { return d.Rotations },
		"rotations", "You have rotated %d tokens of service accounts today, as many as a person may in a day."}
	enrollments = &limit{func(d Daily) int { return d.Enrollments },
		"enrollments", "You have created %d enrollments of runners today, as many as a person may in a day."}
	invitations = &limit{func(d Daily) int { return d.Invitations },
		"invitations", "You have sent %d invitations today, as many as a person may in a day."}
	signIns = &limit{func(d Daily) int { return d.SignIns },
		"sign-ins", "You have signed in %d times today, as many as a person may in a day."}
	changes = &limit{func(d Daily) int { return d.Changes },
		"changes", "You have made %d changes today, as many as a person may in a day."}

	onceEach = &limit{} // can be done once for each thing that another command was charged for
	ending   = &limit{} // the same, and must always be possible: it ends something
	byVolume = &limit{} // callers limit the bytes that a workspace submits, of which a small job counts 1 KiB
	signUp   = &limit{} // an account at a code host registers once
)

// charges returns what a person's command costs, given the events that it will append. A command without a method
// limit has the limit of changes, so that none can be repeated without end. Commands and not events decide, because a
// registration creates a workspace too and costs nothing.
func (d Daily) charges(m Meta, request any, list []events.Event) (out []work.Charge) {
	of := changes
	if c, ok := request.(interface{ limit() *limit }); ok {
		of = c.limit()
	}
	if of.most != nil {
		out = append(out, work.Charge{Subject: m.Actor.ID, Most: of.most(d), What: of.what, Refusal: of.refusal})
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
		const what = "invitations to an address"
		out = append(out,
			work.Charge{Subject: toAddress(address, m.Actor.ID), Most: d.InvitationsPerAddress, What: what,
				Refusal: "You have sent %d invitations to this address today, as many as a person may in a day."},
			work.Charge{Subject: toAddress(address, m.Workspace), Most: d.InvitationsPerAddress, What: what,
				Refusal: "This workspace has sent %d invitations to this address today, as many as a workspace may in a day."})
	}
	return out
}

// toAddress returns the subject under which is counted what a person or a workspace sends to an
// address. It depends on the address itself, because it may have no account here, or several.
func toAddress(address string, sender events.ID) events.ID {
	sum := sha256.Sum256([]byte(sender.String() + "/" + events.EmailKey(address)))
	return events.ID(sum[:len(events.ID{})])
}
