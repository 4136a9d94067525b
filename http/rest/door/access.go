package door

import (
	"strings"

	"svc/events"
)

// A Guard is the authorization rule of a route. The zero guard admits nobody.
type Guard struct {
	Scope   events.Scope // required of a service token; "" refuses every token
	Members bool         // whether every member is admitted
	Right   events.Right // required of a person otherwise
	Own     bool         // whether the path names a member, and members without the right are admitted to their own
	Deleted bool         // whether the workspace has to be a deleted one
}

// Guards that require no right of people. MayDo returns one that does.
var (
	AnyMember            = Guard{Members: true}
	AnyMemberOrReadToken = Guard{Scope: events.ReadAPI, Members: true}
)

// MayDo returns the guard that requires a right of people, and admits no token.
func MayDo(right events.Right) Guard { return Guard{Right: right} }

// String describes who is admitted.
func (g Guard) String() string {
	text := g.Roles()
	if g.Own {
		text += ", or the member themselves"
	}
	if g.Scope != "" {
		text += ", or a token with " + string(g.Scope)
	}
	return text
}

// Roles names the roles that are admitted, for people.
func (g Guard) Roles() string {
	if g.Members {
		return "any member"
	}
	var names []string
	for _, role := range g.Right.Roles() {
		name := string(role)
		if role == events.Legacy {
			name = "legacy member"
		}
		names = append(names, name)
	}
	last := len(names) - 1
	switch last {
	case -1:
		return "nobody"
	case 0:
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
