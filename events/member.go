package events

import "strings"

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

// Administers reports whether r may change members and service accounts.
func (r Role) Administers() bool { return r == Owner || r == Maintainer }

// MayInvite reports whether r may invite somebody as another role.
func (r Role) MayInvite(as Role) bool { return r == Owner || r.Administers() && as != Owner }

// Displayed returns the name of r that people see.
func (r Role) Displayed() string {
	if r == Legacy {
		return string(Viewer)
	}
	return string(r)
}

// MemberJoined says that a person became a member of the workspace.
type MemberJoined struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	Name   string `json:"name,omitempty"` // earlier builds did not say it
	Role   Role   `json:"role"`
}

// MemberRoleChanged says that a member's role became another.
type MemberRoleChanged struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	From   Role   `json:"from"`
	To     Role   `json:"to"`
}

// MemberApproveLoopsSet says that someone ticked or unticked approve-loops for
// a member: from then on the tick counts, whatever the role.
type MemberApproveLoopsSet struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	From   bool   `json:"from"`
	To     bool   `json:"to"`
}

// MemberProfileChanged says that a member is called otherwise than before, or has
// another primary address.
type MemberProfileChanged struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	Name   string `json:"name"`
}

// MemberLeft says that a member left of their own accord.
type MemberLeft struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	Role   Role   `json:"role"`
}

// MemberRemoved says that someone else removed a member.
type MemberRemoved struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	Role   Role   `json:"role"`
}

func (MemberJoined) Kind() string          { return "member.joined" }
func (MemberRoleChanged) Kind() string     { return "member.role_changed" }
func (MemberApproveLoopsSet) Kind() string { return "member.approve_loops_set" }
func (MemberProfileChanged) Kind() string  { return "member.profile_changed" }
func (MemberLeft) Kind() string            { return "member.left" }
func (MemberRemoved) Kind() string         { return "member.removed" }

// MayApproveLoops reports whether a member may approve and merge: an explicit
// tick says so or, where there is none, the role.
func MayApproveLoops(role Role, explicit *bool) bool {
	if explicit != nil {
		return *explicit
	}
	return role.Administers()
}
