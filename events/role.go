package events

import (
	"slices"
	"strings"
)

// A Role is what a member may do in a workspace.
type Role string

// The roles. Legacy can no longer be given; it displays as Viewer.
const (
	Owner      Role = "Owner"
	Maintainer Role = "Maintainer"
	Viewer     Role = "Viewer"
	Legacy     Role = "member"
)

// Roles returns the roles in the order of their names in lower case.
func Roles() []Role { return []Role{Maintainer, Legacy, Owner, Viewer} }

// ParseRole reads the name of a role, in any case.
func ParseRole(s string) (Role, bool) {
	for _, r := range Roles() {
		if strings.EqualFold(s, string(r)) {
			return r, true
		}
	}
	return "", false
}

// Displayed returns the name of r that people see.
func (r Role) Displayed() string {
	if r == Legacy {
		return string(Viewer)
	}
	return string(r)
}

// A Right is something that members may do by their role. Nobody has the zero Right.
type Right int

// The rights.
const (
	ReadWorkspace Right = iota + 1 // runs, inbox, members, invitations, settings
	QueueIssues                    // put issues in the queue
	ReviewFacts                    // answer fact_review decisions
	CancelRuns
	AllowProtectedPaths   // answer protected_path_allow_once decisions, with approve-loops
	ApproveLoops          // approve and merge, unless a tick says otherwise
	ManageMembers         // change and remove members, invite, resend, revoke
	ManageOwners          // make somebody an Owner, and change, remove or invite one
	ManageServiceAccounts // see, create, rotate, revoke
	ReadAudit             // page through the audit log
	ExportAudit           // export, replay and verify it, and see a past state
	ChangeWorkspace       // its name and slug
	RunJobs               // submit and cancel build-farm jobs
	ManageRunners         // enrol, drain, resume and revoke build machines
	ManageFarmSecrets     // that jobs of the farm are given
)

// rights is who may what: all there is to know about roles.
var rights = [...][]Role{
	ReadWorkspace:         {Owner, Maintainer, Legacy, Viewer},
	QueueIssues:           {Owner, Maintainer, Legacy},
	ReviewFacts:           {Owner, Maintainer, Legacy},
	CancelRuns:            {Owner, Maintainer},
	AllowProtectedPaths:   {Owner, Maintainer},
	ApproveLoops:          {Owner, Maintainer},
	ManageMembers:         {Owner, Maintainer},
	ManageOwners:          {Owner},
	ManageServiceAccounts: {Owner, Maintainer},
	ReadAudit:             {Owner, Maintainer},
	ExportAudit:           {Owner},
	ChangeWorkspace:       {Owner},
	RunJobs:               {Owner, Maintainer},
	ManageRunners:         {Owner, Maintainer},
	ManageFarmSecrets:     {Owner, Maintainer},
}

// Roles returns the roles that have the right, the strongest first.
func (r Right) Roles() []Role { return slices.Clone(rights[r]) }

// Rights returns all there are.
func Rights() (list []Right) {
	for r := ReadWorkspace; int(r) < len(rights); r++ {
		list = append(list, r)
	}
	return list
}

// May reports whether members of role r have a right. Who is no member has no
// role, and so none.
func (r Role) May(right Right) bool { return slices.Contains(rights[right], r) }

// MayInvite reports whether r may invite somebody as another role.
func (r Role) MayInvite(as Role) bool {
	return r.May(ManageMembers) && (as != Owner || r.May(ManageOwners))
}

// MayApproveLoops reports whether a member may approve and merge: an explicit
// tick says so or, where there is none, the role.
func MayApproveLoops(role Role, explicit *bool) bool {
	if explicit != nil {
		return *explicit
	}
	return role.May(ApproveLoops)
}
