// Package dashboard is the first page of a workspace: the state of its system, active runs and
// waiting decisions.
package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/ui/client"
	"svc/ui/kit"
	"svc/ui/page"
)

// Routes returns the routes of the page.
func Routes() []page.Route {
	return []page.Route{{Method: http.MethodGet, Path: "/w/{workspace}/dashboard", Show: show}}
}

// data is the content of the page, and the interval in seconds at which it refreshes: a
// dependency that goes down causes no live update.
type data struct {
	client.Dashboard
	after string
}

const usualAfter = "15"

func show(v *page.Visit) (page.Page, error) {
	resp, err := v.API.GetDashboard(v.Context(), nil)
	d := data{after: usualAfter}
	if err == nil {
		if _, malformed := strconv.Atoi(resp.Header.Get("X-Svc-Poll-After")); malformed == nil {
			d.after = resp.Header.Get("X-Svc-Poll-After")
		}
	}
	d.Dashboard, err = client.Read[client.Dashboard](resp, err)
	return page.Page{Title: "Dashboard", NavEntry: "dashboard", Main: view(v, d)}, err
}

// dependencies lists them in the order in which a request uses them.
func (d data) dependencies() []client.SystemDependency {
	rank := func(s client.SystemDependency) int {
		if i := slices.Index([]string{"rest", "database", "engine"}, s.Name); i >= 0 {
			return i
		}
		return len(d.System.Dependencies)
	}
	return slices.SortedStableFunc(slices.Values(d.System.Dependencies), func(a, b client.SystemDependency) int { return rank(a) - rank(b) })
}

// host returns the distinguishing part of an address.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return u.Host
}

func (d data) down() (n int) {
	for _, s := range d.System.Dependencies {
		if s.Status == "down" {
			n++
		}
	}
	return n
}

// upMessage describes a dependency that is up: its own message, and how fast it answers.
func upMessage(s client.SystemDependency) string {
	var parts []string
	if s.Message != "" {
		parts = append(parts, s.Message)
	}
	if s.TookMs > 0 {
		parts = append(parts, "Answers in "+kit.Took(time.Duration(s.TookMs)*time.Millisecond)+".")
	}
	if len(parts) == 0 {
		return "Answers."
	}
	return strings.Join(parts, " ")
}

func iconOf(name string) string {
	switch name {
	case "database":
		return "database"
	case "engine":
		return "cog"
	case "rest":
		return "router"
	}
	return "server"
}

// called returns the name of a dependency.
func called(name string) string {
	switch name {
	case "rest":
		return "REST service"
	case "gateway":
		return "Farm gateway"
	}
	return kit.Words(name)
}

// decisions returns the text after the number of decisions.
func (d data) decisions() string {
	text := "decisions"
	if d.Inbox.Waiting == 1 {
		text = "decision"
	}
	if d.Inbox.OldestAt != nil {
		text += ", oldest"
	}
	return text
}

// kinds describes how many decisions of each kind wait.
func kinds(list []client.KindWaiting) string {
	names := map[string][2]string{
		"merge_approval":            {"merge approval", "merge approvals"},
		"protected_path_allow_once": {"protected path", "protected paths"},
		"fact_review":               {"fact review", "fact reviews"},
	}
	var out []string
	for _, k := range list {
		name, ok := names[string(k.KindId)]
		switch {
		case k.Count == 0:
		case !ok:
			out = append(out, strconv.FormatInt(k.Count, 10)+" "+string(k.KindId))
		case k.Count == 1:
			out = append(out, "1 "+name[0])
		default:
			out = append(out, strconv.FormatInt(k.Count, 10)+" "+name[1])
		}
	}
	return strings.Join(out, ", ")
}

// A segment is the part of a bar for the runs in one state.
type segment struct {
	x, width float64
	class    string
}

const (
	barWidth = 480 // units of the drawing
	gap      = 2
	maxShown = 12 // runs of a stage that are drawn one by one
)

// bar draws the runs of a stage: those in progress, those that wait and those that are stuck.
func bar(s client.StageCount) (list []segment) {
	shown := max(maxShown, s.Count)
	width := float64(barWidth) / float64(shown)
	for i := range s.Count {
		class := "moving"
		switch {
		case i >= s.Count-s.Stuck:
			class = "stuck"
		case i >= s.Count-s.Stuck-s.Waiting:
			class = "waiting"
		}
		list = append(list, segment{float64(i) * width, max(width-gap, 0.5), class})
	}
	return list
}

func unit(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

// stageTone returns the colour of a run's state.
func stageTone(r client.Run) kit.Tone {
	switch r.Status {
	case client.RunStatusMerged:
		return kit.Good
	case client.RunStatusFailed:
		return kit.Bad
	case client.RunStatusCancelled, client.RunStatusRejected, client.RunStatusQueued:
		return kit.Plain
	case client.RunStatusNeedsInput, client.RunStatusAwaitingApproval:
		return kit.Warn
	}
	return kit.Accent
}
