package repos

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"svc/ui/client"
	"svc/ui/page"
)

// settingsForm is the content of the form of settings: the current ones, or those of a refused form or one with a job
// more or less.
type settingsForm struct {
	was     string // the settings that the form was made of, as JSON
	branch  string
	command bool // whether a command changes the code, not the issue's patch
	run     jobForm
	jobs    []jobForm

	protected                                      string // one pattern a line
	mayAllowOnce, approverNotQueuer                bool
	landing, method, label                         string
	maxActive, rounds, dollars, maxFiles, maxLines string // numbers as typed
	issueDollars, inputDollars, outputDollars      string

	refused string            // the reason, "" if a field has it, or there is none
	fields  map[string]string // what is wrong, by field
	added   bool              // whether the last job has just been added
}

// A jobForm has the fields of a required job, or of the command that implements. base is the job as JSON, for what the
// form has no field for.
type jobForm struct {
	base            string
	name            string
	steps           []string // scripts
	sandbox         string
	labels, secrets string // with commas between
	minutes         string
	secretsBefore   bool
}

// isSpecial reports whether the fields are set that most jobs leave as they are. An hour is the default.
func (j jobForm) isSpecial() bool {
	return j.labels != "" || j.secrets != "" || j.minutes != "" && j.minutes != "60" || j.secretsBefore
}

// Choices of a sandbox.
const (
	sandboxAlone   = "alone"   // no network
	sandboxNetwork = "network" // that of the build machine
	sandboxNone    = "none"
)

func sandboxChoice(s *client.JobSandbox) string {
	switch {
	case s == nil:
		return sandboxAlone
	case s.Kind != nil && *s.Kind == client.JobSandboxKindNone:
		return sandboxNone
	case s.Network != nil && *s.Network == client.JobSandboxNetworkHost:
		return sandboxNetwork
	}
	return sandboxAlone
}

// withSandbox returns a sandbox with another choice, and the limits that it had.
func withSandbox(s *client.JobSandbox, choice string) *client.JobSandbox {
	if sandboxChoice(s) == choice {
		return s
	}
	var out client.JobSandbox
	if s != nil {
		out = *s
	}
	out.Kind, out.Network = new(client.JobSandboxKindBubblewrap), new(client.JobSandboxNetworkNone)
	switch choice {
	case sandboxNone:
		out.Kind, out.Network = new(client.JobSandboxKindNone), nil
	case sandboxNetwork:
		out.Network = new(client.JobSandboxNetworkHost)
	}
	return &out
}

func newSettingsForm(s client.RepoSettings) settingsForm {
	f := settingsForm{
		was: encode(s), branch: s.Branch, command: s.Implementer.Kind == client.Command,
		protected: strings.Join(s.ProtectedPaths, "\n"), mayAllowOnce: s.MayAllowOnce, approverNotQueuer: s.ApproverNotQueuer,
		landing: string(s.Landing), method: string(s.Method), label: s.Label,
		maxActive: digits(s.MaxActive), rounds: digits(s.Rounds), maxFiles: digits(s.MaxFiles), maxLines: digits(s.MaxLines),
	}
	if s.Cents > 0 {
		f.dollars = strconv.FormatFloat(float64(s.Cents)/100, 'f', 2, 64)
	}
	if s.IssueCents > 0 {
		f.issueDollars = strconv.FormatFloat(float64(s.IssueCents)/100, 'f', 2, 64)
	}
	f.inputDollars, f.outputDollars = dollarsOf(s.Prices.InputCents), dollarsOf(s.Prices.OutputCents)
	i := s.Implementer
	f.run = jobForm{
		base: encode(i), steps: []string{value(i.Run)}, sandbox: sandboxChoice(i.Sandbox), labels: joined(i.Labels), secrets: joined(i.Secrets),
		minutes: minutesOf(i.RunSeconds),
	}
	for _, j := range s.RequiredJobs {
		one := jobForm{
			base: encode(j), name: j.Name, sandbox: sandboxChoice(j.Sandbox), labels: joined(j.Labels), secrets: joined(j.Secrets),
			minutes: minutesOf(j.RunSeconds), secretsBefore: j.SecretsBeforeApproval != nil && *j.SecretsBeforeApproval,
		}
		for _, step := range j.Steps {
			one.steps = append(one.steps, step.Run)
		}
		f.jobs = append(f.jobs, one)
	}
	return f
}

// postedSettings returns the posted form.
func postedSettings(v *page.Visit) settingsForm {
	text := func(name string) string { return strings.TrimSpace(v.PostFormValue(name)) }
	f := settingsForm{
		was: v.PostFormValue("was"), branch: text("branch"), command: text("implementer") == string(client.Command),
		run: postedJob(v, "command"), protected: lines(text("protected")), mayAllowOnce: text("may-allow-once") != "",
		approverNotQueuer: text("approver-not-queuer") != "", landing: text("landing"), method: text("method"), label: text("label"),
		maxActive: text("max-active"), rounds: text("rounds"), dollars: text("dollars"), maxFiles: text("max-files"), maxLines: text("max-lines"),
		issueDollars: text("issue-dollars"), inputDollars: text("input-dollars"), outputDollars: text("output-dollars"),
	}
	for _, n := range v.PostForm["job"] {
		f.jobs = append(f.jobs, postedJob(v, "job-"+n))
	}
	return f
}

func postedJob(v *page.Visit, prefix string) jobForm {
	text := func(name string) string { return strings.TrimSpace(v.PostFormValue(prefix + "-" + name)) }
	j := jobForm{
		base: v.PostFormValue(prefix + "-base"), name: text("name"), sandbox: text("sandbox"), labels: text("labels"), secrets: text("secrets"),
		minutes: text("minutes"), secretsBefore: text("secrets-before") != "",
	}
	for _, step := range v.PostForm[prefix+"-step"] {
		j.steps = append(j.steps, lines(step))
	}
	return j
}

// changeSettings saves the fields that the person has changed, so that it does not undo what somebody else has changed
// meanwhile. Buttons that add or remove a job only show the form again.
func changeSettings(v *page.Visit) (page.Notice, error) {
	f := postedSettings(v)
	what, nth, _ := strings.Cut(v.PostFormValue("do"), " ")
	switch i, err := strconv.Atoi(nth); {
	case what == "add":
		f.jobs, f.added = append(f.jobs, jobForm{steps: []string{""}, sandbox: sandboxAlone}), true
		v.Result = f
		return page.Notice{}, errOnlyShown
	case what == "remove" && err == nil && i >= 0 && i < len(f.jobs):
		f.jobs = append(f.jobs[:i:i], f.jobs[i+1:]...)
		v.Result = f
		return page.Notice{}, errOnlyShown
	}
	body, err := f.change()
	if err == nil && reflect.DeepEqual(body, client.RepoChangeBody{}) {
		return page.Notice{Text: "Nothing has changed."}, nil
	}
	if err == nil {
		err = client.CheckResponse(v.API.ChangeRepo(v.Context(), v.PathValue("id"), nil, body))
	}
	if r := refusal(err); r != nil {
		f.fields = r.FieldErrors("branch", "label", "protectedPaths", "maxFiles", "maxLines", "maxActive", "rounds", "cents", "issueCents")
		if len(f.fields) == 0 {
			f.refused = page.Sentence(r)
		}
		v.Result = f
		return page.Notice{}, page.InlineError{Err: r}
	}
	return page.Notice{Text: "Settings saved. They apply to what runs do from now on."}, err
}

// errOnlyShown shows the form again, with its values and without a notice.
var errOnlyShown = page.InlineError{Err: &client.Refused{Status: http.StatusConflict}}

// change returns what differs from the settings that the form was made of.
func (f settingsForm) change() (body client.RepoChangeBody, err error) {
	var was client.RepoSettings
	_ = json.Unmarshal([]byte(f.was), &was) // the fields of a form that somebody else made are all sent
	n := numbers{}
	changed(&body.Branch, was.Branch, f.branch)
	changed(&body.Landing, client.RepoChangeBodyLanding(was.Landing), client.RepoChangeBodyLanding(f.landing))
	changed(&body.Method, client.RepoChangeBodyMethod(was.Method), client.RepoChangeBodyMethod(f.method))
	changed(&body.MayAllowOnce, was.MayAllowOnce, f.mayAllowOnce)
	changed(&body.ApproverNotQueuer, was.ApproverNotQueuer, f.approverNotQueuer)
	changed(&body.Label, was.Label, f.label)
	changed(&body.MaxActive, was.MaxActive, n.whole("Active runs", f.maxActive))
	changed(&body.Rounds, was.Rounds, n.whole("Rounds", f.rounds))
	changed(&body.MaxFiles, was.MaxFiles, n.whole("Files", f.maxFiles))
	changed(&body.MaxLines, was.MaxLines, n.whole("Lines", f.maxLines))
	changed(&body.Cents, was.Cents, n.cents("The budget", f.dollars))
	changed(&body.IssueCents, was.IssueCents, n.cents("The budget of an issue", f.issueDollars))
	changed(&body.Prices, was.Prices, client.TokenPrices{
		InputCents: n.price("The price of input tokens", f.inputDollars), OutputCents: n.price("The price of output tokens", f.outputDollars),
	})
	if f.landing == "" { // a repository without pull requests has no choice
		body.Landing, body.Method = nil, nil
	}
	if paths := split(f.protected, "\n"); !reflect.DeepEqual(paths, append([]string{}, was.ProtectedPaths...)) {
		body.ProtectedPaths = &paths
	}
	if i := f.implementer(&n); encode(i) != encode(was.Implementer) {
		body.Implementer = &i
	}
	jobs := []client.RequiredJob{}
	for i, j := range f.jobs {
		if j.name == "" || strings.TrimSpace(strings.Join(j.steps, "")) == "" {
			n.refuse(fmt.Sprintf("Required job %d needs a name and a script.", i+1))
		}
		jobs = append(jobs, j.required(&n))
	}
	if encode(jobs) != encode(append([]client.RequiredJob{}, was.RequiredJobs...)) {
		body.RequiredJobs = &jobs
	}
	return body, n.err
}

// implementer returns what changes the code. A patch needs nothing else.
func (f settingsForm) implementer(n *numbers) client.RepoImplementer {
	if !f.command {
		return client.RepoImplementer{Kind: client.Patch}
	}
	var i client.RepoImplementer
	_ = json.Unmarshal([]byte(f.run.base), &i)
	i.Kind, i.Run = client.Command, nil
	if script := strings.Join(f.run.steps, "\n"); strings.TrimSpace(script) != "" {
		i.Run = &script
	} else {
		n.refuse("The command must not be empty.")
	}
	i.Sandbox = withSandbox(i.Sandbox, f.run.sandbox)
	i.Labels, i.Secrets = relisted(i.Labels, f.run.labels), relisted(i.Secrets, f.run.secrets)
	i.RunSeconds = n.seconds(i.RunSeconds, f.run.minutes)
	return i
}

// required returns the job with the fields of the form, and what else it had.
func (j jobForm) required(n *numbers) client.RequiredJob {
	var out client.RequiredJob
	_ = json.Unmarshal([]byte(j.base), &out)
	steps := []client.JobStepSpec{}
	for i, run := range j.steps {
		var step client.JobStepSpec
		if i < len(out.Steps) {
			step = out.Steps[i]
		}
		if step.Run = run; strings.TrimSpace(run) != "" {
			steps = append(steps, step)
		}
	}
	out.Name, out.Steps, out.Sandbox = j.name, steps, withSandbox(out.Sandbox, j.sandbox)
	out.Labels, out.Secrets = relisted(out.Labels, j.labels), relisted(out.Secrets, j.secrets)
	out.RunSeconds = n.seconds(out.RunSeconds, j.minutes)
	if before := out.SecretsBeforeApproval != nil && *out.SecretsBeforeApproval; before != j.secretsBefore {
		out.SecretsBeforeApproval = &j.secretsBefore
	}
	return out
}

// numbers reads numbers of a form and keeps the first refusal.
type numbers struct{ err error }

func (n *numbers) refuse(text string) {
	if n.err == nil {
		n.err = &client.Refused{Status: http.StatusConflict, Message: text}
	}
}

func (n *numbers) whole(name, text string) int64 {
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n.refuse(name + " must be a whole number.")
	}
	return i
}

// cents reads dollars. Nothing is no limit.
func (n *numbers) cents(name, text string) int64 {
	return int64(math.Round(n.dollars(name, text, 1e6) * 100))
}

// price reads dollars, and returns cents to a millionth. Nothing is no price.
func (n *numbers) price(name, text string) float64 {
	return math.Round(n.dollars(name, text, 1e4)*1e8) / 1e6
}

func (n *numbers) dollars(name, text string, most float64) float64 {
	if text == "" {
		return 0
	}
	dollars, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if err != nil || !(dollars >= 0 && dollars <= most) {
		n.refuse(name + " must be an amount in dollars, such as 5 or 2.50.")
		return 0
	}
	return dollars
}

// dollarsOf returns a price as it is typed.
func dollarsOf(cents float64) string {
	if cents == 0 {
		return ""
	}
	return strconv.FormatFloat(cents/100, 'f', -1, 64)
}

// seconds reads minutes. Seconds that the form shows as these minutes are kept.
func (n *numbers) seconds(was *int64, minutes string) *int64 {
	switch {
	case minutesOf(was) == minutes:
		return was
	case minutes == "":
		return nil
	}
	return new(60 * n.whole("Minutes", minutes)) //nolint:mnd // seconds
}

// changed sets a field of a change if the value is another.
func changed[T comparable](field **T, was, now T) {
	if was != now {
		*field = &now
	}
}

// relisted returns the list that a field names: the same one if nothing has changed.
func relisted(was *[]string, text string) *[]string {
	list := split(text, ",")
	if joined(was) == strings.Join(list, ", ") {
		return was
	}
	return &list
}

func split(text, separator string) []string {
	list := []string{}
	for _, part := range strings.Split(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func joined(list *[]string) string {
	if list == nil {
		return ""
	}
	return strings.Join(*list, ", ")
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// lines replaces the line ends of forms.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

func digits(n int64) string { return strconv.FormatInt(n, 10) }

func minutesOf(seconds *int64) string {
	if seconds == nil {
		return ""
	}
	return digits((*seconds + 59) / 60) //nolint:mnd // seconds
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "" // never: the values are those of answers
	}
	return string(text)
}
