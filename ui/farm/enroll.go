package farm

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// A mintedCommand is a command that enrolls so many machines. It is shown once.
type mintedCommand struct {
	client.Minted
	uses int64
}

// An enrollForm is a posted form that asks for a command.
type enrollForm struct {
	name, labels string
	uses, lasts  string // number of machines, and seconds
	ephemeral    bool
	refused      string            // why the service refused it, "" if a field has the reason, or nothing was posted yet
	fields       map[string]string // what is wrong, by field
	alreadyMade  bool              // it was sent before, and created a command then
}

// splitLabels returns the labels of a field, where commas or spaces are between them.
func splitLabels(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' })
}

var emptyForm = enrollForm{uses: "1", lasts: lifetimes[0].seconds}

// lifetimes are those that a command can have.
var lifetimes = []struct{ seconds, text string }{
	{"900", "15 minutes"}, {"3600", "1 hour"}, {"86400", "1 day"}, {"604800", "7 days"}, {"2592000", "30 days"}, {"7776000", "90 days"},
}

// enroll creates a command, which is only in the answer to the POST: never in an address, a
// cookie or the history.
func enroll(v *page.Visit) (page.Notice, error) {
	form := enrollForm{
		name: strings.TrimSpace(v.PostFormValue("name")), labels: v.PostFormValue("labels"), ephemeral: v.PostFormValue("ephemeral") != "",
		uses: strings.TrimSpace(v.PostFormValue("uses")), lasts: v.PostFormValue("lasts"),
	}
	uses := max(page.ParseNumber(form.uses), 1)
	labels := splitLabels(form.labels)
	body := client.NewEnrollmentRequestBody{
		Name: client.Optional(form.name), Ephemeral: client.Optional(form.ephemeral), Uses: &uses,
		TtlSeconds: client.Optional(page.ParseNumber(form.lasts)),
	}
	if len(labels) > 0 {
		body.Labels = &labels
	}
	params := &client.MintEnrollmentParams{IdempotencyKey: v.IdempotencyKey()}
	m, err := client.Decode[client.Minted](v.API.MintEnrollment(v.Context(), params, body))
	if r := client.AsRefused(err); r != nil {
		switch r.Code {
		case "farm_not_ready":
			r.Status, r.Message = http.StatusConflict, r.Message+" "+missingText(r)
		case "token_already_shown":
			form.alreadyMade = true
			r.Message = "The command was already created, and is shown once. If you did not see it, withdraw it and create another."
		}
		if form.fields = r.FieldErrors("name", "labels", "uses", "ttlSeconds"); len(form.fields) == 0 {
			form.refused = page.Sentence(r)
		}
		v.Result = form
	}
	if err != nil {
		return page.Notice{}, page.InlineError{Err: err}
	}
	v.Result = mintedCommand{m, uses}
	return page.Notice{}, nil
}

// missingText lists the missing settings of a refusal.
func missingText(r *client.Refused) string {
	var names []string
	r.Detail("missing", &names)
	if len(names) == 0 {
		return ""
	}
	return "Missing: " + strings.Join(names, ", ") + "."
}

// showAdd shows the created command, or the form for one. htmx swaps that part into the dialog.
func showAdd(v *page.Visit) (page.Page, error) {
	return page.Page{Title: "Add a runner", NavEntry: "farm", Main: addView(v)}, nil
}

// awaitRunner shows the progress of an enrollment. The page polls it until that is over.
func awaitRunner(v *page.Visit) (page.Page, error) {
	e, err := client.Decode[client.Enrollment](v.API.GetEnrollment(v.Context(), v.PathValue("id"), nil))
	if err != nil || !isOnline(e) {
		return page.Page{Part: waitingView(v, e, nil)}, err
	}
	r, err := client.Decode[client.Runner](v.API.GetRunner(v.Context(), e.Runner.Id, nil))
	return page.Page{Part: waitingView(v, e, &r)}, err
}

// commandLines breaks a command before its second program, the pipe and each option, with backslashes, so
// that a shell still accepts it.
func commandLines(command string) templ.Component {
	var text strings.Builder
	piped := false
	for i, word := range strings.Split(command, " ") {
		address := strings.HasPrefix(word, "https://")
		switch {
		case i == 0:
		case word == "curl":
			text.WriteString(" \\\n")
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

// certificateFile returns an address that is itself the file of a CA's certificate.
func certificateFile(ca client.PrivateCA) templ.SafeURL {
	return templ.SafeURL("data:application/x-pem-file;base64," + base64.StdEncoding.EncodeToString([]byte(ca.Certificate)))
}

// isOnline reports whether the machine has become a connected runner.
func isOnline(e client.Enrollment) bool {
	return e.Runner != nil && e.Runner.State == client.EnrollmentRunnerStateOnline
}

// mayEnroll reports whether the command can enroll another machine.
func mayEnroll(e client.Enrollment, now time.Time) bool {
	return e.Status == client.EnrollmentStatusPending && now.Before(e.ExpiresAt)
}

// isSettled reports whether the enrollment will not progress any more: no other machine can come, and the last runner is
// online or was.
func isSettled(e client.Enrollment, now time.Time) bool {
	if mayEnroll(e, now) {
		return false
	}
	r := e.Runner
	return r == nil || isOnline(e) || r.State == client.EnrollmentRunnerStateRetired || r.State == client.EnrollmentRunnerStateRevoked
}

const enrollmentsPerPage = 100 // the API's maximum

// showEnrollments lists the commands that no machine has used yet.
func showEnrollments(v *page.Visit) (page.Page, error) {
	pending := client.ListEnrollmentsParamsStatusPending
	list, err := client.Decode[client.ListEnrollment](v.API.ListEnrollments(v.Context(), &client.ListEnrollmentsParams{
		Limit: client.Optional(int64(enrollmentsPerPage)), Offset: client.Optional(v.QueryNumber("offset")), Status: &pending,
	}))
	return page.Page{Title: "Enrollments", NavEntry: "farm", Main: enrollmentsView(v, list)}, err
}

// withOffset adds the offset of a page of enrollments to a path.
func withOffset(path string, offset int64) string {
	if offset <= 0 {
		return path
	}
	return path + "?offset=" + kit.Digits(offset)
}

func withdraw(v *page.Visit) (page.Notice, error) {
	err := client.CheckResponse(v.API.WithdrawEnrollment(v.Context(), v.PathValue("id"), nil))
	return page.Notice{Text: "Command withdrawn. It no longer works."}, err
}

// showWithdrawn shows the part of the page from which the command was withdrawn: the list, or
// the dialog with an empty form.
func showWithdrawn(v *page.Visit) (page.Page, error) {
	if v.URL.Query().Has("add") {
		return showAdd(v)
	}
	return showEnrollments(v)
}

// settingDescriptions describe the settings that enrollment requires.
var settingDescriptions = map[string]string{
	"SVC_FARM_PUBLIC_URL":         "The public address of the farm’s gateway.",
	"SVC_FARM_RELEASES_DIR":       "The folder filled by make release.",
	"SVC_FARM_CLIENT_CERT_HEADER": "The header in which the gateway forwards certificates.",
}
