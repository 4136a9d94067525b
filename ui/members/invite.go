package members

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"svc/input"
	"svc/ui/client"
	"svc/ui/page"
)

const maxInvited = 20 // addresses in one form

// unsentInvites is the content of the form after a refusal, and zero after success: the addresses that were not invited, and why.
type unsentInvites struct{ addresses, role, refused string }

// separated splits a list of addresses. What has blanks is several addresses only if each part looks like one.
func separated(text string) (list []string) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",;\n\r\t", r) }) {
		words := strings.Fields(part)
		if slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(word, "@") }) {
			words = []string{strings.TrimSpace(part)}
		}
		list = append(list, words...)
	}
	return list
}

// firstFault describes what is wrong with a list of addresses as a whole, "" for nothing.
func firstFault(addresses []string) string {
	switch {
	case len(addresses) == 0:
		return "Enter an email address."
	case len(addresses) > maxInvited:
		return "You can invite up to " + strconv.Itoa(maxInvited) + " people at once."
	}
	for _, a := range addresses {
		if _, ok := input.Email(a); !ok {
			return "“" + a + "” is not an email address."
		}
	}
	return ""
}

// invite sends an invitation to each address in the field. If one is not an address, none is sent and the field stays as it
// was typed. Addresses that the service refuses stay in the field, with the reasons.
func invite(v *page.Visit) (page.Notice, error) {
	text, role := v.PostFormValue("email"), v.PostFormValue("role")
	addresses := separated(text)
	if fault := firstFault(addresses); fault != "" {
		return refuseInvites(v, text, role, fault)
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
			v.Result = unsentInvites{text, role, ""}
			return page.Notice{}, err
		}
		unsent, problems = append(unsent, addresses[i:]...), append(problems, "The service is not responding: the others are not invited.")
		break
	}
	if len(problems) > 0 {
		return refuseInvites(v, strings.Join(unsent, ", "), role, strings.Join(append(problems, invitedText(invited, role)), " "))
	}
	v.Result = unsentInvites{"", role, ""}
	return page.Notice{Text: invitedText(invited, role) + " No e-mail is sent: copy the link and send it."}, nil
}

// refuseInvites shows the reason at the field.
func refuseInvites(v *page.Visit, addresses, role, reason string) (page.Notice, error) {
	reason = strings.TrimSpace(reason)
	v.Result = unsentInvites{addresses, role, reason}
	return page.Notice{}, page.InlineError{Err: refusal(reason)}
}

// invitedText names the people who were invited, "" for nobody.
func invitedText(invited []string, role string) string {
	switch n := len(invited); n {
	case 0:
		return ""
	case 1:
		return invited[0] + " is invited as " + role + "."
	default:
		return strings.Join(invited[:n-1], ", ") + " and " + invited[n-1] + " are invited as " + role + "."
	}
}

// unsentInvitesOf returns the content of the form.
func unsentInvitesOf(v *page.Visit) unsentInvites {
	u, _ := v.Result.(unsentInvites)
	return u
}
