// Package aggregates decides what may happen.
//
// An aggregate is the fold of one stream of events. Its methods look at that state and
// return the events that follow, or an error that says why none may. They change nothing,
// read no clock and know no database. Only Apply changes an aggregate, and it never refuses
// an event.
//
// # Runs and decisions
//
// A run is one stream, and the decisions that it asks people for are part of it: raised,
// then answered or voided. So an answer and its consequences (an approval, another round,
// the end of the run) are one decision of one aggregate and one append. A run asks for one
// decision at a time and enters no stage meanwhile. An approval names a commit. A push that
// moves the branch voids both an open decision and an approval, so nothing is merged that
// nobody looked at. While a run is merging the loop cannot push, and a cancellation stops it after
// the attempt; an attempt that does not merge leaves the approval as it is.
//
// A run holds the promises of the product whatever is recorded: an approval and an allowance come out of a
// person's answer alone, and guardrails, review and required jobs have to hold when the merge is
// attempted, under the policy that is in force then. A person who allows protected paths once allows
// exactly what was found on that commit under that policy: the answer itself records that the
// guardrails hold. Rounds of the budget count however they began, but a person who asks for another
// gets it. What happened outside, such as a merge at the code host or a person's push, is recorded
// whatever the run was doing.
//
// Who may answer depends on the kind of the decision and is read from the workspace's
// stream in the same append. A right that is revoked at the same moment is either revoked
// first, and the answer refused, or revoked after the answer.
//
// # Invitations
//
// Membership is one stream per workspace, because the rule that one Owner always remains
// concerns all members. Invitations are in it, because accepting one makes a member.
// Whether an invitation has expired is computed when it matters, so no job has to run for
// that. An invitation depends on its last sender: when they lose the right to send it, it
// is revoked in the same append.
package aggregates

import "svc/events"

func oneEvent(e events.Event) ([]events.Event, error) { return []events.Event{e}, nil }
