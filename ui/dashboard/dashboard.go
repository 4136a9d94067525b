// Package dashboard is the first page of a workspace: the state of the system, active runs,
// waiting decisions and the farm's capacity.
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

// pageData is the content of the page. It refreshes periodically, because a dependency that
// goes down causes no live update.
type pageData struct {
	client.Dashboard
	refreshSeconds string // the interval, a number
	steps          []step // to the first merged change; none once there is one
}

const defaultRefresh = "15" // seconds

func show(v *page.Visit) (page.Page, error) {
	resp, err := v.API.GetDashboard(v.Context(), nil)
	d := pageData{refreshSeconds: defaultRefresh}
	if err == nil {
		if _, malformed := strconv.Atoi(resp.Header.Get("X-Svc-Poll-After")); malformed == nil {
			d.refreshSeconds = resp.Header.Get("X-Svc-Poll-After")
		}
	}
	d.Dashboard, err = client.Decode[client.Dashboard](resp, err)
	if err == nil {
		err = d.loadSteps(v)
	}
	return page.Page{Title: "Dashboard", NavEntry: "dashboard", Main: view(v, d)}, err
}

// dependencies returns the dependencies in the order in which a request uses them.
func (d pageData) dependencies() []client.SystemDependency {
	rank := func(s client.SystemDependency) int {
		if i := slices.Index([]string{"rest", "database", "engine"}, s.Name); i >= 0 {
			return i
		}
		return len(d.System.Dependencies)
	}
	return slices.SortedStableFunc(slices.Values(d.System.Dependencies), func(a, b client.SystemDependency) int { return rank(a) - rank(b) })
}

// host returns the host of an address, or the address if it has none.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return u.Host
}

func (d pageData) downCount() (n int) {
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
		parts = append(parts, "Answers in "+kit.Duration(time.Duration(s.TookMs)*time.Millisecond)+".")
	}
	if len(parts) == 0 {
		return "Answers."
	}
	return strings.Join(parts, " ")
}

func dependencyIcon(name string) string {
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

// dependencyName returns the name of a dependency on the page.
func dependencyName(name string) string {
	switch name {
	case "rest":
		return "REST service"
	case "gateway":
		return "Farm gateway"
	}
	return kit.Words(name)
}

// waitingText returns the text after the number of waiting decisions.
func (d pageData) waitingText() string {
	text := "decisions"
	if d.Inbox.Waiting == 1 {
		text = "decision"
	}
	if d.Inbox.OldestAt != nil {
		text += ", oldest"
	}
	return text
}

// kindCounts describes how many decisions of each kind wait.
func kindCounts(list []client.KindWaiting) string {
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

// A segment is the part of a bar for one run.
type segment struct {
	x, width float64
	class    string
}

const (
	barWidth = 480 // in the units of the SVG
	gap      = 2   // between segments
	minSlots = 12  // the runs that fill a bar, unless a stage has more
)

// stageBar returns the segments of a stage's runs: moving ones, then waiting, then stuck ones.
func stageBar(s client.StageCount) (list []segment) {
	slots := max(minSlots, s.Count)
	width := float64(barWidth) / float64(slots)
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

func twoDecimals(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }
