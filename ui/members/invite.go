package members

import (
	"net/http"
	"strconv"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

const maxInvited = 20 // addresses in one form

// unsentInvites is the content of the form after a refusal: the addresses that were not invited.
type unsentInvites struct{ addresses, role string }

// invite sends an invitation to each address in the field. Refused addresses stay in the field,
// and the refusal gives the reasons.
func invite(v *page.Visit) (page.Notice, error) {
	text, role := v.PostFormValue("email"), v.PostFormValue("role")
	addresses := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;\n\r\t", r) })
	v.Result = unsentInvites{text, role}
	switch {
	case len(addresses) == 0:
		return page.Notice{}, refusal("Enter an email address.")
	case len(addresses) > maxInvited:
		return page.Notice{}, refusal("You can invite up to " + strconv.Itoa(maxInvited) + " people at once.")
	}
	var invited, unsent, problems []string
	for i, email := range addresses {
		params := client.SendInvitationParams{IdempotencyKey: v.IdempotencyKey(email)}
		err := client.CheckResponse(v.API.SendInvitation(v.Context(), &params, client.SendInvitationJSONRequestBody{
			Email: email, Role: client.Optional(client.NewInvitationBodyRole(role)),
		}))
		r := client.AsRefused(err)
		switch {
		case err == nil:
			invited = append(invited, email)
			continue
		case r != nil && r.Status < http.StatusInternalServerError && r.Status != http.StatusUnauthorized:
			unsent, problems = append(unsent, email), append(problems, email+": "+page.Sentence(r))
			continue
		case len(invited) == 0:
			return page.Notice{}, err
		}
		unsent, problems = append(unsent, addresses[i:]...), append(problems, "The service is not responding: the others are not invited.")
		break
	}
	v.Result = unsentInvites{strings.Join(unsent, ", "), role}
	if len(problems) > 0 {
		return page.Notice{}, refusal(strings.Join(append(problems, invitedText(invited)), " "))
	}
	return page.Notice{Text: invitedText(invited) + " No email is sent, so let them know."}, nil
}

// invitedText names the people who were invited, "" for nobody.
func invitedText(invited []string) string {
	switch n := len(invited); n {
	case 0:
		return ""
	case 1:
		return invited[0] + " is invited."
	default:
		return strings.Join(invited[:n-1], ", ") + " and " + invited[n-1] + " are invited."
	}
}

// unsentInvitesOf returns the content of the form.
func unsentInvitesOf(v *page.Visit) unsentInvites {
	u, _ := v.Result.(unsentInvites)
	return u
}
