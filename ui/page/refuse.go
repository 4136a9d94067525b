package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
)

// A Problem is the content of an error page.
type Problem struct {
	Title, Text string
	Retry       bool
	Wait        time.Duration // before a retry is useful; 0 if unknown
	Request     string        // the request id

	Invitation *client.OwnInvitation // the person's pending invitation to the page's workspace, or nil
}

// refuse answers a request that failed: with the sign-in page, a notice or an error page.
func (a *App) refuse(w http.ResponseWriter, v *Visit, err error) {
	a.setCookies(w, v)
	r := client.AsRefused(err)
	if r != nil && r.Status == http.StatusUnauthorized {
		a.redirect(w, v, SignInPath(v.address()))
		return
	}
	status, p := problem(r, err)
	p.Request = v.RequestID()
	p.Text += v.askWhom(r)
	if status >= http.StatusInternalServerError && !errors.Is(err, context.Canceled) {
		a.Log.ErrorContext(v.Context(), "page", "path", v.URL.Path, "err", err)
	}
	if v.FromHTMX() {
		p.Text += retryHint(p.Wait)
		a.refuseSwap(w, r, status, p)
		return
	}
	if r != nil && r.Code == "tenant_not_found" {
		if v.Person.User.ID != "" || v.loadPerson() == nil {
			p.Text += " You are signed in as " + v.Person.User.Name + "."
		}
		if i, ok := invitation(v); ok {
			p.Title, p.Invitation = "You are invited to "+i.OrganizationName, &i
			p.Text = "Accept the invitation to join as " + kit.An(kit.Words(kit.Role(i.Role))) + " and open this page."
		}
	}
	a.write(w, v, Page{Title: p.Title, Main: problemPage(v, p), Status: status})
}

// maxAsked is the number of people that a refusal names.
const maxAsked = 3

// askWhom returns the end of a refusal by role: the person's own role, and who has one that is required. It is "" for other
// refusals.
func (v *Visit) askWhom(r *client.Refused) string {
	role := v.Workspace.You.Role
	if r == nil || r.Code != "role_required" || role == "" {
		return ""
	}
	text := " You are " + kit.An(kit.Role(string(role))) + "."
	var roles, names []string
	r.Detail("required", &roles)
	for _, required := range roles {
		list, err := client.Decode[client.MemberList](v.API.ListMembers(v.Context(), &client.ListMembersParams{
			Role: client.Optional(client.ListMembersParamsRole(required)), Limit: client.Optional(int64(maxAsked)),
		}))
		if err != nil {
			return text // the refusal itself stays
		}
		for _, m := range list.Items {
			names = append(names, kit.NameOrEmail(m.Name, m.Email))
		}
		if len(names) >= maxAsked {
			break
		}
	}
	if names = names[:min(len(names), maxAsked)]; len(names) > 0 {
		text += " Ask " + kit.Or(names) + "."
	}
	return text
}

// maxInvitationsRead limits how many of a person's invitations are searched.
const maxInvitationsRead = 10

// invitation returns the person's pending invitation to the page's workspace; ok is false if
// there is none or it cannot be read.
func invitation(v *Visit) (found client.OwnInvitation, ok bool) {
	list, err := v.API.OwnInvitations(v.Context())
	if err != nil {
		return found, false
	}
	for _, i := range list[:min(len(list), maxInvitationsRead)] {
		if i.Status != "pending" {
			continue
		}
		if found, err = v.API.OwnInvitation(v.Context(), i.ID); err == nil && found.OrganizationSlug == v.Slug() {
			return found, true
		}
	}
	return client.OwnInvitation{}, false
}

// address returns the address of the page that the browser shows. For htmx it is the
// browser's current one, not that of the part or form. A form's own address redirects to
// its page.
func (v *Visit) address() string {
	if v.FromHTMX() {
		if u, err := url.Parse(v.Header.Get("HX-Current-URL")); err == nil && u.Path != "" {
			return u.RequestURI()
		}
	}
	return v.URL.RequestURI()
}

// refuseSwap answers htmx: it leaves the page as it is and shows a notice. If the person is
// no longer a member, the page is reloaded and then shows an error page.
func (a *App) refuseSwap(w http.ResponseWriter, r *client.Refused, status int, p Problem) {
	h := w.Header()
	if r != nil && r.Code == "tenant_not_found" {
		h.Set("HX-Refresh", "true")
	} else {
		h.Set("HX-Reswap", "none")
		Notice{Text: p.Text + " Request " + p.Request + ".", Bad: true}.setHeader(h)
	}
	w.WriteHeader(status)
}

func problem(r *client.Refused, err error) (int, Problem) {
	var unreachable *client.Unreachable
	switch {
	case errors.As(err, &unreachable):
		return http.StatusBadGateway, Problem{
			Title: "The service is not responding", Text: "Your saved work is safe. Try again in a moment.", Retry: true,
		}
	case r == nil || r.Status >= http.StatusInternalServerError && r.Status != http.StatusServiceUnavailable:
		return http.StatusInternalServerError, Problem{
			Title: "Something went wrong", Text: "If it keeps failing, give an operator the request ID.", Retry: true,
		}
	case r.Status == http.StatusTooManyRequests:
		return r.Status, Problem{Title: "Too many requests", Text: r.Message, Retry: true, Wait: retryAfter(r)}
	case r.Status == http.StatusServiceUnavailable:
		title := cmp.Or(unavailableTitles[r.Code], "Part of the service is not responding")
		return r.Status, Problem{Title: title, Text: r.Message, Retry: true, Wait: retryAfter(r)}
	case r.Code == "tenant_not_found":
		return http.StatusNotFound, Problem{
			Title: "You are not in this workspace", Text: "It does not exist, or you are not a member. Ask an Owner or Maintainer to invite you.",
		}
	case r.Status == http.StatusForbidden:
		return r.Status, Problem{Title: "Your role does not allow this", Text: Sentence(r)}
	case r.Status == http.StatusNotFound:
		return r.Status, Problem{Title: "Page not found", Text: r.Message}
	case r.Status == http.StatusUnprocessableEntity:
		return r.Status, Problem{Title: "This link is not valid", Text: Sentence(r)}
	}
	return r.Status, Problem{Title: "That did not work", Text: Sentence(r)}
}

// unavailableTitles maps codes of temporary refusals to page titles.
var unavailableTitles = map[string]string{
	"busy":            "The service is busy",
	"farm_closing":    "The service is busy",
	"not_caught_up":   "The latest changes are still loading",
	"outcome_unknown": "We don’t know whether that worked",
}

// retryAfter returns the duration in the service's Retry-After, or 0.
func retryAfter(r *client.Refused) time.Duration {
	n, err := strconv.ParseInt(r.RetryAfter, 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// retryHint returns the end of a notice that says when to retry. It has no countdown: a
// notice disappears within seconds.
func retryHint(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return " Try again in " + kit.Duration(d) + "."
}

// formError turns an error of reading a form into a refusal.
func formError(err error) error {
	if most, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &client.Refused{
			Status: http.StatusRequestEntityTooLarge, Code: "too_large",
			Message: fmt.Sprintf("That is too much text; the limit is %d KiB. Nothing was changed.", most.Limit>>10),
		}
	}
	return &client.Refused{Status: http.StatusBadRequest, Code: "malformed",
		Message: "The form did not arrive complete. Nothing was changed. Try again."}
}

// NotFound answers paths without a route, in a workspace or outside. A path with a trailing slash is redirected to the
// one without.
func (a *App) NotFound() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := *r.URL; r.Method == http.MethodGet && len(to.Path) > 1 && strings.HasSuffix(to.Path, "/") {
			to.Path, to.RawPath = strings.TrimRight(to.Path, "/"), strings.TrimRight(to.RawPath, "/")
			http.Redirect(w, r, Local(to.RequestURI()), http.StatusPermanentRedirect) //nolint:gosec // a path of the app
			return
		}
		v := &Visit{Request: r, API: a.Service.NewSession(r, r.PathValue("workspace")), Now: a.Now()}
		var err error
		if v.Slug() != "" { // the page keeps the navigation
			err = a.loadWorkspace(v, Route{})
		}
		if err == nil {
			err = &client.Refused{Status: http.StatusNotFound, Message: "There is no page at this address."}
		}
		a.refuse(w, v, err)
	})
}
