package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/aggregates"
	"svc/commands"
	"svc/events"
	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
)

func routes() (list []route) {
	for _, section := range New(Config{}).sections() {
		list = append(list, section.routes...)
	}
	return list
}

// Every route has an id, a summary, a description, a handler, a guard and known views.
func TestEveryRouteIsComplete(t *testing.T) {
	views := []string{proof.FollowerName}
	for _, v := range projections.Followed() {
		views = append(views, v.Name())
	}
	described, known := map[string]bool{}, map[string]bool{}
	for _, section := range New(Config{}).sections() {
		described[section.tag] = described[section.tag] || section.about != ""
		require.True(t, described[section.tag], "%q has no description", section.tag)
		for _, r := range section.routes {
			name := r.method + " " + r.path
			require.False(t, known[r.id] || known[name], "%s is duplicated", name)
			known[r.id], known[name] = true, true
			require.NotNil(t, r.handler, "%s: made by neither query nor command", name)
			require.NotEqual(t, r.guard.members, r.guard.right != 0, "%s: its guard admits either every member or those with a right", name)
			require.Subset(t, views, r.views, "%s: unknown followed view", name)
			for what, value := range map[string]string{"id": r.id, "summary": r.summary, "text": r.text} {
				require.NotEmpty(t, value, "%s: no %s", name, what)
			}
			if r.method != http.MethodGet {
				require.NotNil(t, r.intent, "%s: its refusals are not recorded", name)
			}
			if r.intent != nil {
				require.Contains(t, r.faults(), commands.ErrOutcomeUnknown, name)
				if _, awaited := r.answerExample.(run); awaited {
					require.Contains(t, r.faults(), fold.ErrNotCaughtUp, "%s: its handler waits for the view", name)
				}
				require.Equal(t, strings.Contains(r.path, "{id}"), r.missing != nil, "%s: missing must be set if the path has an id", name)
			}
		}
	}
}

func TestEverySectionIsServed(t *testing.T) {
	made := regexp.MustCompile(`(?m)^func \(s \*Server\) (\w+)\(\) section \{$`)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	table, err := os.ReadFile("routes.go")
	require.NoError(t, err)
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range made.FindAllStringSubmatch(string(text), -1) {
			n++
			require.Contains(t, string(table), "s."+found[1]+"()", "%s is missing in sections", file)
		}
	}
	require.Equal(t, n, len(New(Config{}).sections()))
}

// elsewhere are deniable commands that only /api/auth runs.
var elsewhere = []string{"AcceptInvitation", "RejectInvitation"}

// Every deniable command has exactly one route, whose guard records refusals.
func TestEveryCommandHasARoute(t *testing.T) {
	var asked []string
	for _, r := range routes() {
		if r.intent == nil {
			continue
		}
		for _, body := range []string{"", `{"action":"cancel"}`} { // by which one route asks for several
			name := reflect.TypeOf(r.intent(&caller{}, events.ID{}, []byte(body))).Name()
			if !slices.Contains(asked, name) || body == "" {
				asked = append(asked, name)
			}
		}
	}
	handler, deniable := reflect.TypeFor[*commands.Handler](), reflect.TypeFor[commands.Deniable]()
	for i := range handler.NumMethod() {
		method := handler.Method(i).Type
		if method.NumIn() != 3 || !method.In(2).Implements(deniable) || method.In(2).Kind() != reflect.Struct {
			continue
		}
		name := method.In(2).Name()
		require.NotEqual(t, slices.Contains(asked, name), slices.Contains(elsewhere, name), "%s: want one route", name)
	}
	require.NotEmpty(t, asked)
}

// A guard refuses a request before its fields are checked: what is recorded of it has no long text, and no
// token.
func TestRecordedDenialsAreBounded(t *testing.T) {
	long, token := strings.Repeat("W", 200<<10), commands.NewServiceToken().Reveal()
	log := &appendedLog{}
	handler, denials := commands.New(log, time.Now), 0
	for _, r := range routes() {
		if r.intent == nil {
			continue
		}
		for _, text := range []string{long, "a " + token + "\n\u202e\x00"} {
			example, err := json.Marshal(r.requestExample)
			require.NoError(t, err)
			body := map[string]any{}
			if r.requestExample != nil {
				require.NoError(t, json.Unmarshal(example, &body))
			}
			body["name"] = text
			for key, value := range body {
				if _, ok := value.(string); ok && key != "action" {
					body[key] = text
				}
			}
			sent, err := json.Marshal(body)
			require.NoError(t, err)
			denials++
			m := commands.Meta{Workspace: events.NewID(time.Now())} // in another one each time, as few are recorded in one
			require.NoError(t, handler.RecordDenial(t.Context(), m, r.intent(&caller{}, events.ID{}, sent), aggregates.ErrRoleRequired))
		}
	}
	require.Len(t, log.denied, denials)
	require.Positive(t, denials)
	for _, e := range log.denied {
		require.Empty(t, e.Name, e.Action)
	}
}

type appendedLog struct {
	commands.Log
	denied []events.CommandDenied
}

func (l *appendedLog) Append(_ context.Context, c *events.Commit) (events.Committed, error) {
	l.denied = append(l.denied, c.Writes[0].Events[0].(events.CommandDenied))
	return events.Committed{}, nil
}

func TestGuardString(t *testing.T) {
	for want, g := range map[string]guard{
		"any member": anyMember, "any member, or a token with api.read": anyMemberOrReadToken, "Owner": mayDo(events.ExportAudit),
		"Owner or Maintainer":                              mayDo(events.CancelRuns),
		"Owner or Maintainer, or a token with farm.submit": guard{scope: events.SubmitJobs, right: events.RunJobs},
		"Owner, Maintainer or legacy member":               mayDo(events.QueueIssues),
	} {
		require.Equal(t, want, g.String())
	}
}
