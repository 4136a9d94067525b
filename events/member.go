package events

// members are the people of a workspace; their events are in its stream.
var members = Noun{
	Name: "member", Audience: Members, State: true, Rights: true, NamesTarget: true,
	kinds: [][]decoder{
		of[MemberJoined](),
		of[MemberRoleChanged](),
		of[MemberApproveLoopsSet](),
		of[MemberProfileChanged](),
		of[MemberLeft](),
		of[MemberRemoved](),
	},
}

// MemberJoined says that a person became a member of the workspace.
type MemberJoined struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	Name   string `json:"name,omitempty"` // earlier builds did not say it
	Role   Role   `json:"role"`
}

func (MemberJoined) Kind() string               { return "member.joined" }
func (e MemberJoined) target(*Record) Target    { return Target{"member", e.Member, e.Email} }
func (e MemberJoined) changes(*Record) []Change { return []Change{{"role", nil, e.Role}} }

// MemberRoleChanged says that a member's role became another.
type MemberRoleChanged struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	From   Role   `json:"from"`
	To     Role   `json:"to"`
}

func (MemberRoleChanged) Kind() string               { return "member.role_changed" }
func (e MemberRoleChanged) target(*Record) Target    { return Target{"member", e.Member, e.Email} }
func (e MemberRoleChanged) changes(*Record) []Change { return []Change{{"role", e.From, e.To}} }

// MemberApproveLoopsSet says that someone ticked or unticked approve-loops for
// a member: from then on the tick counts, whatever the role.
type MemberApproveLoopsSet struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	From   bool   `json:"from"`
	To     bool   `json:"to"`
}

func (MemberApproveLoopsSet) Kind() string            { return "member.approve_loops_set" }
func (e MemberApproveLoopsSet) target(*Record) Target { return Target{"member", e.Member, e.Email} }
func (e MemberApproveLoopsSet) changes(*Record) []Change {
	return []Change{{"canApproveLoops", e.From, e.To}}
}

// MemberProfileChanged says that a member is called otherwise than before, or has
// another primary address.
type MemberProfileChanged struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	Name   string `json:"name"`
}

func (MemberProfileChanged) Kind() string            { return "member.profile_changed" }
func (e MemberProfileChanged) target(*Record) Target { return Target{"member", e.Member, e.Email} }
func (e MemberProfileChanged) changes(*Record) []Change {
	return []Change{{"name", nil, e.Name}, {"email", nil, e.Email}}
}

// MemberLeft says that a member left of their own accord.
type MemberLeft struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	Role   Role   `json:"role"`
}

func (MemberLeft) Kind() string               { return "member.left" }
func (e MemberLeft) target(*Record) Target    { return Target{"member", e.Member, e.Email} }
func (e MemberLeft) changes(*Record) []Change { return []Change{{"role", e.Role, nil}} }

// MemberRemoved says that someone else removed a member.
type MemberRemoved struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	Role   Role   `json:"role"`
}

func (MemberRemoved) Kind() string               { return "member.removed" }
func (e MemberRemoved) target(*Record) Target    { return Target{"member", e.Member, e.Email} }
func (e MemberRemoved) changes(*Record) []Change { return []Change{{"role", e.Role, nil}} }
