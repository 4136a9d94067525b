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
	name string
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
	v.Done = minted{m, v.PostFormValue("name")}
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
	ended := e.Status == client.EnrollmentStatusExpired || e.Status == client.EnrollmentStatusWithdrawn
	return ended || e.Runner == nil && !now.Before(e.ExpiresAt)
}

// showEnrollments shows the commands that were made and that no machine has used yet, to
// those who may make and withdraw them.
func showEnrollments(v *page.Visit) (page.Page, error) {
	params := &client.ListEnrollmentsParams{Limit: client.Optional(int64(100))}
	list, err := client.Read[client.ListEnrollment](v.API.ListEnrollments(v.Context(), params))
	var waiting []client.Enrollment
	for _, e := range list.Items {
		if e.Status == client.EnrollmentStatusPending && v.Now.Before(e.ExpiresAt) {
			waiting = append(waiting, e)
		}
	}
	return page.Page{Title: "Enrolments", Place: "farm", Main: enrollmentsView(v, waiting)}, err
}

func withdraw(v *page.Visit) (page.Notice, error) {
	err := client.Done(v.API.WithdrawEnrollment(v.Context(), v.PathValue("id"), nil))
	return page.Notice{Text: "The command works no more."}, err
}

// needed are what has to be set for machines to be enrolled, with what each is.
var needed = map[string]string{
	"SVC_FARM_PUBLIC_URL":         "The public address of the farm’s gateway.",
	"SVC_FARM_RELEASES_DIR":       "The folder that make release has filled.",
	"SVC_FARM_CLIENT_CERT_HEADER": "The header in which the gateway forwards certificates.",
}
