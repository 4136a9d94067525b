package events

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
