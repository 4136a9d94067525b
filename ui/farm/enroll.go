package farm

import (
	"net/http"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/page"
)

// A minted is a command to enrol a machine, which is shown once.
type minted struct {
	client.Minted
	name    string
	private bool // the gateway's certificate is of a private authority
}

// enroll makes a command. It stays on the answer of the POST: nothing of it is in an
// address, a cookie or the history.
func enroll(v *page.Visit) (page.Notice, error) {
	labels := strings.FieldsFunc(v.PostFormValue("labels"), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' })
	body := client.NewEnrollmentRequestBody{Name: client.Optional(strings.TrimSpace(v.PostFormValue("name")))}
	if len(labels) > 0 {
		body.Labels = &labels
	}
	if v.PostFormValue("ephemeral") != "" {
		body.Ephemeral = new(true)
	}
	m, err := client.Read[client.Minted](v.API.MintEnrollment(v.Context(), nil, body))
	if r := client.As(err); r != nil && r.Code == "farm_not_ready" {
		return page.Notice{}, &client.Refused{Status: http.StatusConflict, Code: r.Code, Message: r.Message + " " + missing(r)}
	}
	if err != nil {
		return page.Notice{}, err
	}
	v.Done = minted{m, v.PostFormValue("name"), v.PostFormValue("private") != ""}
	return page.Notice{}, nil
}

// missing names what is not set for machines to be enrolled.
func missing(r *client.Refused) string {
	var names []string
	r.Detail("missing", &names)
	if len(names) == 0 {
		return ""
	}
	return "Missing: " + strings.Join(names, ", ") + "."
}

// showMinted shows the command, or the page with why there is none.
func showMinted(v *page.Visit) (page.Page, error) {
	m, ok := v.Done.(minted)
	if !ok {
		return show(v)
	}
	return page.Page{Title: "Add a runner", Place: "farm", Main: mintedView(v, m)}, nil
}

// awaitRunner is the part of that page that asks itself anew until the runner is there.
func awaitRunner(v *page.Visit) (page.Page, error) {
	e, err := client.Read[client.Enrollment](v.API.GetEnrollment(v.Context(), v.PathValue("id"), nil))
	return page.Page{Part: waitingView(v, e)}, err
}

// online tells whether the machine has become a runner that is connected.
func online(e client.Enrollment) bool {
	return e.Runner != nil && e.Runner.State == client.EnrollmentRunnerStateOnline
}

func over(e client.Enrollment, now time.Time) bool {
	return e.Status == client.EnrollmentStatusExpired || e.Status == client.EnrollmentStatusWithdrawn || e.Runner == nil && !now.Before(e.ExpiresAt)
}
