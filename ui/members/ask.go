package members

import (
	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// roleRank orders roles by their rights.
var roleRank = map[string]int{"Viewer": 0, "member": 0, "Maintainer": 1, "Owner": 2}

// lesserRoles lists the roles with fewer rights than a role.
func lesserRoles(role string) []string {
	list := []string{}
	for _, other := range []string{"Viewer", "Maintainer"} {
		if roleRank[other] < roleRank[role] || role == "member" && other == "Viewer" {
			list = append(list, other)
		}
	}
	return list
}

func roleQuestion(_ *page.Visit, m client.Member) page.Question {
	whom, pronoun := memberName(m), "They"
	if m.IsYou {
		whom, pronoun = "yourself", "You"
	}
	return page.Question{
		Title: "Make " + whom + " a {}?", // lesser roles all begin with a consonant
		Text:  pronoun + " lose what " + kit.An(selectedRole(m)) + " can do. It applies at once.",
		Field: "role", Values: lesserRoles(string(m.Role)),
	}
}

func approvalQuestion(_ *page.Visit, m client.Member) page.Question {
	whom, pronoun := memberName(m), "They"
	if m.IsYou {
		whom, pronoun = "yourself", "You"
	}
	return page.Question{
		Title: "Take approve-loops from " + whom + "?", Text: pronoun + " can no longer approve and merge. It applies at once.",
		Field: "approve", Values: []string{"false"},
	}
}

func removeQuestion(v *page.Visit, m client.Member) page.Question {
	if m.IsYou {
		return page.Question{Title: "Leave " + v.Workspace.Name + "?", Text: "Your access ends at once. Your activity stays in the audit log."}
	}
	title := "Remove " + memberName(m) + " from " + v.Workspace.Name + "?"
	return page.Question{Title: title, Text: "Their access ends at once. Their activity stays in the audit log."}
}

func revokeQuestion(i client.Invitation) page.Question {
	return page.Question{Title: "Revoke the invitation of " + i.Email + "?", Text: "It can no longer be accepted."}
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
