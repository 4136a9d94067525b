package events

import (
	"slices"
	"strings"
)

// A Role determines what a member may do in a workspace.
type Role string

// The roles. Legacy can no longer be given; it is displayed as Viewer.
const (
	Owner      Role = "Owner"
	Maintainer Role = "Maintainer"
	Viewer     Role = "Viewer"
	Legacy     Role = "member"
)

// Roles returns the roles, sorted by their names in lower case.
func Roles() []Role { return []Role{Maintainer, Legacy, Owner, Viewer} }

// AssignableRoles returns the roles that can be given, strongest first.
func AssignableRoles() []Role { return []Role{Owner, Maintainer, Viewer} }

// Assignable reports whether r can be given.
func (r Role) Assignable() bool { return slices.Contains(AssignableRoles(), r) }

// ParseRole parses the name of a role, in any case.
func ParseRole(s string) (Role, bool) {
	for _, r := range Roles() {
		if strings.EqualFold(s, string(r)) {
			return r, true
		}
	}
	return "", false
}

// Displayed returns the name that is shown for r.
func (r Role) Displayed() string {
	if r == Legacy {
		return string(Viewer)
	}
	return string(r)
}

// A Right is something that a role allows. No role has the zero Right.
type Right int

// The rights.
const (
	ReadWorkspace Right = iota + 1 // runs, inbox, members, invitations, settings
	QueueIssues                    // put issues in the queue
	ReviewFacts                    // answer fact_review decisions
	CancelRuns
	AllowProtectedPaths   // answer protected_path_allow_once decisions; needs ApproveLoops too
	ApproveLoops          // approve and merge, unless the member's own setting says otherwise
	ManageMembers         // change and remove members, invite, resend, revoke
	ManageOwners          // make somebody an Owner, and change, remove or invite one
	ManageServiceAccounts // see, create, rotate, revoke
	ReadAudit             // page through the audit log
	ExportAudit           // export, replay and verify it, and see a past state
	ChangeWorkspace       // its name and slug
	DeleteWorkspace       // and restore it
	RunJobs               // submit and cancel build-farm jobs
	ManageRunners         // enroll, drain, resume and revoke build machines
	ManageFarmSecrets     // the secrets that jobs of the farm receive
	ManageRepos           // connect, change, check, pause and disconnect repositories

	endOfRights
)

// rights lists the roles that have each right. Nothing else grants rights to roles.
var rights = [endOfRights][]Role{
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
	DeleteWorkspace:       {Owner},
	RunJobs:               {Owner, Maintainer},
	ManageRunners:         {Owner, Maintainer},
	ManageFarmSecrets:     {Owner, Maintainer},
	ManageRepos:           {Owner, Maintainer},
}

// Roles returns the roles that have the right, strongest first.
func (r Right) Roles() []Role { return slices.Clone(rights[r]) }

// May reports whether role r has a right. The empty role, of somebody who is not a member,
// has none.
func (r Role) May(right Right) bool { return slices.Contains(rights[right], r) }

// MayInvite reports whether role r may invite somebody as another role.
func (r Role) MayInvite(as Role) bool {
	return r.May(ManageMembers) && (as != Owner || r.May(ManageOwners))
}

// MayApproveLoops reports whether a member may approve and merge: explicit, the member's
// own setting, decides if there is one, and otherwise the role.
func MayApproveLoops(role Role, explicit *bool) bool {
	if explicit != nil {
		return *explicit
	}
	return role.May(ApproveLoops)
}
