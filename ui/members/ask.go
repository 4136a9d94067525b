package members

import (
	"strings"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// assignableRoles lists the roles that can be given, strongest first.
var assignableRoles = []string{"Owner", "Maintainer", "Viewer"}

// approvesIn reports whether a member may approve loops in another role: their own setting, if there is one, stays.
func approvesIn(m client.Member, role string) bool {
	if m.ApproveLoopsExplicit {
		return m.CanApproveLoops
	}
	return role == "Owner" || role == "Maintainer"
}

// roleQuestion says what a member gains and loses by a role.
func roleQuestion(m client.Member, role string) page.Question {
	whom, they := memberName(m), "They"
	if m.IsYou {
		whom, they = "yourself", "You"
	}
	return page.Question{
		Title: "Make " + whom + " " + kit.An(role) + "?",
		Text:  strings.Join(append(roleChanges(m, role, they), "It applies at once."), " "),
		Yes:   "Make " + whom + " " + kit.An(role), No: "Keep " + roleLabel(m),
		Plain: role == "Maintainer" && m.Role != client.MemberRoleOwner,
	}
}

// roleChanges lists what a member, whom the pronoun they stands for, gains and loses by a role, in sentences.
func roleChanges(m client.Member, role, they string) (list []string) {
	switch {
	case role == "Owner":
		list = append(list, they+" can then do everything, and change and remove any Owner.")
	case role == "Maintainer" && m.Role == client.MemberRoleOwner:
		list = append(list, they+" can no longer change Owners or the settings of the workspace.")
	case role == "Maintainer":
		list = append(list, they+" can then invite and remove people, and manage runs, repositories and machines.")
	case m.Role == client.MemberRoleMember:
		list = append(list, they+" can no longer queue issues or review facts.")
	default:
		list = append(list, they+" can then only read.")
	}
	if m.Role == client.MemberRoleOwner || m.Role == client.MemberRoleMaintainer && role == "Viewer" {
		list = append(list, "Pending invitations that "+strings.ToLower(they)+" may no longer send are revoked.")
	}
	switch after := approvesIn(m, role); {
	case after && !m.CanApproveLoops:
		list = append(list, they+" also get approve-loops: "+strings.ToLower(they)+" can approve and merge.")
	case !after && m.CanApproveLoops:
		list = append(list, they+" also lose approve-loops: "+strings.ToLower(they)+" can no longer approve and merge.")
	}
	return list
}

// askRole asks about the role that a form chose. It asks nothing about a role that the service refuses or the member has.
func askRole(v *page.Visit, m client.Member) page.Question {
	for _, role := range assignableRoles {
		if role == v.PostFormValue("role") && role != selectedRole(m) {
			return roleQuestion(m, role)
		}
	}
	return page.Question{}
}

func approvalQuestion(_ *page.Visit, m client.Member) page.Question {
	whom, pronoun := memberName(m), "They"
	if m.IsYou {
		whom, pronoun = "yourself", "You"
	}
	return page.Question{
		Title: "Take approve-loops from " + whom + "?", Text: pronoun + " can no longer approve and merge. It applies at once.",
		Yes: "Take approve-loops", No: "Keep approve-loops",
		Field: "approve", Value: "false",
	}
}

func removeQuestion(v *page.Visit, m client.Member) page.Question {
	if m.IsYou {
		return page.Question{
			Title: "Leave " + v.Workspace.Name + "?", Text: "Your access ends at once. Your activity stays in the audit log.",
			Yes: "Leave " + v.Workspace.Name, No: "Stay a member",
		}
	}
	return page.Question{
		Title: "Remove " + memberName(m) + " from " + v.Workspace.Name + "?",
		Text:  "Their access ends at once. Their activity stays in the audit log.",
		Yes:   "Remove " + memberName(m), No: "Keep " + memberName(m),
	}
}

// inviteOwnerQuestion is asked before somebody is invited as an Owner.
func inviteOwnerQuestion() page.Question {
	return page.Question{
		Title: "Invite as Owner?", Text: "Owners can do everything here, and change and remove any Owner, you included.",
		Yes: "Invite as Owner", No: "Not as Owner",
		Field: "role", Value: "Owner",
	}
}

func askInvite(*page.Visit) (page.Question, error) { return inviteOwnerQuestion(), nil }

func revokeQuestion(i client.Invitation) page.Question {
	return page.Question{
		Title: "Revoke the invitation of " + i.Email + "?", Text: "It can no longer be accepted.",
		Yes: "Revoke the invitation", No: "Keep the invitation",
	}
}

// askAboutMember returns a function that asks a question about the member in the path. It asks
// nothing if there is no such member: the service refuses the request.
func askAboutMember(question func(*page.Visit, client.Member) page.Question) func(*page.Visit) (page.Question, error) {
	return func(v *page.Visit) (page.Question, error) {
		m, err := client.Decode[client.Member](v.API.GetMember(v.Context(), v.PathValue("id"), nil))
		if r := client.AsRefused(err); r != nil && r.Code == "member_not_found" {
			return page.Question{}, nil
		}
		if err != nil {
			return page.Question{}, err
		}
		return question(v, m), nil
	}
}

func askRevoke(v *page.Visit) (page.Question, error) {
	i, ok, err := page.Find(func(offset int64) ([]client.Invitation, int64, error) {
		list, err := client.Decode[client.ListInvitation](v.API.ListInvitations(v.Context(), &client.ListInvitationsParams{
			Limit: client.Optional(int64(perPage)), Offset: client.Optional(offset),
		}))
		return list.Items, list.Total, err
	}, func(i client.Invitation) bool { return i.Id == v.PathValue("id") })
	if err != nil || !ok {
		return page.Question{}, err
	}
	return revokeQuestion(i), nil
}
