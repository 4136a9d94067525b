package events

// members are the people of a workspace. Their events are in the workspace's stream.
var members = Noun{
	Name: "member", Audience: Members, State: true, Rights: true, NamesTarget: true,
	people: [][]decoder{
		decodersOf[MemberJoined](),
		decodersOf[MemberRoleChanged](),
		decodersOf[MemberApproveLoopsSet](),
		decodersOf[MemberProfileChanged](),
		decodersOf[MemberLeft](),
		decodersOf[MemberRemoved](),
	},
}

// MemberJoined says that a person became a member of the workspace.
type MemberJoined struct {
	Member ID     `json:"memberId"`
	User   ID     `json:"userId"`
	Email  string `json:"email"`
	Name   string `json:"name,omitempty"` // missing in events of earlier builds
	Role   Role   `json:"role"`
}

func (MemberJoined) Kind() string               { return "member.joined" }
func (e MemberJoined) target(*Record) Target    { return Target{"member", e.Member, e.Email} }
func (e MemberJoined) changes(*Record) []Change { return []Change{{"role", nil, e.Role}} }

// MemberRoleChanged says that a member's role changed.
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

// MemberApproveLoopsSet says that somebody set whether a member may approve loops. From
// then on the setting counts, whatever the role.
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

// MemberProfileChanged says that a member's name or primary address changed.
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
