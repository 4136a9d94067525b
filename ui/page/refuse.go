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

// A Problem is a page that could not be shown.
type Problem struct {
	Title, Text string
	Retry       bool
	Wait        time.Duration // until a retry is worth it; 0 if that is not known
	Request     string        // the id that operators find it by; "" where that helps nobody

	Invitation *client.OwnInvitation // that waits for the person, to the workspace of the page; nil is none
}

// refuse answers a request of which nothing came.
func (a *App) refuse(w http.ResponseWriter, v *Visit, err error) {
	a.setCookies(w, v)
	r := client.As(err)
	if r != nil && r.Status == http.StatusUnauthorized {
		a.redirect(w, v, SignInPath(v.address()))
		return
	}
	status, p := problem(r, err)
	p.Request = v.RequestID()
	if role := v.Workspace.You.Role; r != nil && r.Code == "role_required" && role != "" {
		p.Text += " You are " + kit.An(kit.Role(string(role))) + "."
	}
	if status >= http.StatusInternalServerError && !errors.Is(err, context.Canceled) {
		a.Log.ErrorContext(v.Context(), "page", "path", v.URL.Path, "err", err)
	}
	if v.Swapped() {
		p.Text += wait(p.Wait)
		a.refuseSwap(w, r, status, p)
		return
	}
	if r != nil && r.Code == "tenant_not_found" {
		if i, ok := invitation(v); ok {
			p.Title, p.Invitation = "You are invited to "+i.OrganizationName, &i
			p.Text = "Accept the invitation to join as " + kit.An(kit.Words(kit.Role(i.Role))) + " and open this page."
		}
	}
	a.write(w, v, Page{Title: p.Title, Main: problemPage(v, p), Status: status})
}

// maxInvitationsRead limits how many of a person's invitations are searched.
const maxInvitationsRead = 10

// invitation returns the one by which the person can join the workspace of the page; ok is
// false if there is none, or it cannot be told.
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

// address is that of the page that the browser shows: a part of it and a form have others.
// That of a form leads to its page.
func (v *Visit) address() string {
	if v.Swapped() {
		if u, err := url.Parse(v.Header.Get("HX-Current-URL")); err == nil && u.Path != "" {
			return u.RequestURI()
		}
	}
	return v.URL.RequestURI()
}

// refuseSwap keeps what the page shows. In a workspace that is no longer the person's the
// page is asked for anew, which says so.
func (a *App) refuseSwap(w http.ResponseWriter, r *client.Refused, status int, p Problem) {
	h := w.Header()
	if r != nil && r.Code == "tenant_not_found" {
		h.Set("HX-Refresh", "true")
	} else {
		h.Set("HX-Reswap", "none")
		Notice{Text: p.Text + " Request " + p.Request + ".", Bad: true}.tell(h)
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

// retryAfter is when another try is worth it, 0 where the service does not say.
func retryAfter(r *client.Refused) time.Duration {
	n, err := strconv.ParseInt(r.RetryAfter, 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// wait says it in a notice, which goes away before it is no longer true.
func wait(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return " Try again in " + kit.Took(d) + "."
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

// NotFound is the page for paths that are none. One that ends with a slash leads to the
// path without.
func (a *App) NotFound() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := *r.URL; r.Method == http.MethodGet && len(to.Path) > 1 && strings.HasSuffix(to.Path, "/") {
			to.Path, to.RawPath = strings.TrimRight(to.Path, "/"), strings.TrimRight(to.RawPath, "/")
			http.Redirect(w, r, Local(to.RequestURI()), http.StatusPermanentRedirect) //nolint:gosec // a path of the app
			return
		}
		v := &Visit{Request: r, API: a.Service.For(r, ""), Now: a.Now()}
		a.refuse(w, v, &client.Refused{Status: http.StatusNotFound, Message: "There is no page at this address."})
	})
}
