package farm

import (
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"svc/ui/client"
	"svc/ui/page"
)

// A minted is a command to enrol a machine, which is shown once.
type minted struct{ client.Minted }

// An order is what was sent to make a command.
type order struct {
	name, labels string
	ephemeral    bool
	refused      string // why there is none; "" if nothing was sent yet
}

// enroll makes a command. It stays on the answer of the POST: nothing of it is in an
// address, a cookie or the history.
func enroll(v *page.Visit) (page.Notice, error) {
	sent := order{
		name: strings.TrimSpace(v.PostFormValue("name")), labels: v.PostFormValue("labels"), ephemeral: v.PostFormValue("ephemeral") != "",
	}
	labels := strings.FieldsFunc(sent.labels, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' })
	body := client.NewEnrollmentRequestBody{Name: client.Optional(sent.name), Ephemeral: client.Optional(sent.ephemeral)}
	if len(labels) > 0 {
		body.Labels = &labels
	}
	m, err := client.Read[client.Minted](v.API.MintEnrollment(v.Context(), nil, body))
	if r := client.AsRefused(err); r != nil {
		if r.Code == "farm_not_ready" {
			r.Status, r.Message = http.StatusConflict, r.Message+" "+missing(r)
		}
		sent.refused = page.Sentence(r)
		v.Done = sent
	}
	if err != nil {
		return page.Notice{}, page.InlineError{Err: err}
	}
	v.Done = minted{m}
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

// showAdd shows the command, or what is to be said of the machine first. Out of it htmx
// takes what the dialog shows.
func showAdd(v *page.Visit) (page.Page, error) {
	return page.Page{Title: "Add a runner", NavEntry: "farm", Main: addView(v)}, nil
}

// awaitRunner is the part of that page that asks itself anew until the runner is there.
func awaitRunner(v *page.Visit) (page.Page, error) {
	e, err := client.Read[client.Enrollment](v.API.GetEnrollment(v.Context(), v.PathValue("id"), nil))
	if err != nil || !online(e) {
		return page.Page{Part: waitingView(v, e, nil)}, err
	}
	r, err := client.Read[client.Runner](v.API.GetRunner(v.Context(), e.Runner.Id, nil))
	return page.Page{Part: waitingView(v, e, &r)}, err
}

// commandLines shows a command as a shell reads it as well: the program behind the pipe and each
// option begin a line.
func commandLines(command string) templ.Component {
	var text strings.Builder
	piped := false
	for i, word := range strings.Split(command, " ") {
		address := strings.HasPrefix(word, "https://")
		switch {
		case i == 0:
		case word == "|":
			text.WriteString(" \\\n  ")
			piped = true
		case piped && strings.HasPrefix(word, "--") && word != "--", !piped && address:
			text.WriteString(" \\\n    ")
		default:
			text.WriteByte(' ')
		}
		if word = templ.EscapeString(word); address {
			word = `<span class="address">` + word + "</span>"
		}
		text.WriteString(word)
	}
	return templ.Raw(text.String())
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
	return page.Page{Title: "Enrollments", NavEntry: "farm", Main: enrollmentsView(v, waiting)}, err
}

func withdraw(v *page.Visit) (page.Notice, error) {
	err := client.Done(v.API.WithdrawEnrollment(v.Context(), v.PathValue("id"), nil))
	return page.Notice{Text: "Command withdrawn. It no longer works."}, err
}

// showWithdrawn shows where the command was withdrawn: the list, or the dialog, which is
// ready for another one.
func showWithdrawn(v *page.Visit) (page.Page, error) {
	if v.URL.Query().Has("add") {
		return showAdd(v)
	}
	return showEnrollments(v)
}

// needed are what has to be set for machines to be enrolled, with what each is.
var needed = map[string]string{
	"SVC_FARM_PUBLIC_URL":         "The public address of the farm’s gateway.",
	"SVC_FARM_RELEASES_DIR":       "The folder filled by make release.",
	"SVC_FARM_CLIENT_CERT_HEADER": "The header in which the gateway forwards certificates.",
}
