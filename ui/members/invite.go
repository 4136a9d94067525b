package members

import (
	"net/http"
	"strconv"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

const maxInvited = 20 // addresses in one form

// unsent is what the form still shows: the addresses that were not invited.
type unsent struct{ addresses, role string }

// invite sends an invitation to each address in the field. Addresses that are refused stay in
// the field, with the reasons; the others are sent.
func invite(v *page.Visit) (page.Notice, error) {
	typed, role := v.PostFormValue("email"), v.PostFormValue("role")
	addresses := strings.FieldsFunc(typed, func(r rune) bool { return strings.ContainsRune(" ,;\n\r\t", r) })
	v.Done = unsent{typed, role}
	switch {
	case len(addresses) == 0:
		return page.Notice{}, refused("Enter an email address.")
	case len(addresses) > maxInvited:
		return page.Notice{}, refused("You can invite up to " + strconv.Itoa(maxInvited) + " people at once.")
	}
	var sent, left, told []string
	for i, email := range addresses {
		err := client.Done(v.API.SendInvitation(v.Context(), nil, client.SendInvitationJSONRequestBody{
			Email: email, Role: client.Optional(client.NewInvitationBodyRole(role)),
		}))
		r := client.AsRefused(err)
		switch {
		case err == nil:
			sent = append(sent, email)
			continue
		case r != nil && r.Status < http.StatusInternalServerError && r.Status != http.StatusUnauthorized:
			left, told = append(left, email), append(told, email+": "+page.Sentence(r))
			continue
		case len(sent) == 0:
			return page.Notice{}, err
		}
		left, told = append(left, addresses[i:]...), append(told, "The service is not responding: the others are not invited.")
		break
	}
	v.Done = unsent{strings.Join(left, ", "), role}
	if len(told) > 0 {
		return page.Notice{}, refused(strings.Join(append(told, invitedText(sent)), " "))
	}
	return page.Notice{Text: invitedText(sent) + " No email is sent, so let them know."}, nil
}

// invitedText returns the notice about the people who were invited.
func invitedText(sent []string) string {
	switch n := len(sent); n {
	case 0:
		return ""
	case 1:
		return sent[0] + " is invited."
	default:
		return strings.Join(sent[:n-1], ", ") + " and " + sent[n-1] + " are invited."
	}
}

// unsentOf returns the content of the form.
func unsentOf(v *page.Visit) unsent {
	u, _ := v.Done.(unsent)
	return u
}
