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
	"svc/commands/bearer"
	"svc/events"
	"svc/http/middleware"
	"svc/http/rest/door"
	"svc/http/rest/runs"
	"svc/projections"
	"svc/projections/fold"
	"svc/proof"
)

func routes() (list []door.Route) {
	for _, section := range New(Config{}).sections() {
		list = append(list, section.Routes...)
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
		described[section.Tag] = described[section.Tag] || section.About != ""
		require.True(t, described[section.Tag], "%q has no description", section.Tag)
		for _, r := range section.Routes {
			name := r.Method + " " + r.Path
			require.False(t, known[r.ID] || known[name], "%s is duplicated", name)
			known[r.ID], known[name] = true, true
			require.NotNil(t, r.Handler, "%s: made by neither Query nor Command", name)
			require.NotEqual(t, r.Guard.Members, r.Guard.Right != 0, "%s: its guard admits either every member or those with a right", name)
			require.Subset(t, views, r.Views, "%s: unknown followed view", name)
			for what, value := range map[string]string{"id": r.ID, "summary": r.Summary, "text": r.Text} {
				require.NotEmpty(t, value, "%s: no %s", name, what)
			}
			if r.Method != http.MethodGet {
				require.NotNil(t, r.Intent, "%s: its refusals are not recorded", name)
			}
			if r.Intent != nil {
				require.Contains(t, r.Faults(), commands.ErrOutcomeUnknown, name)
				if _, awaited := r.AnswerExample.(runs.Run); awaited {
					require.Contains(t, r.Faults(), fold.ErrNotCaughtUp, "%s: its handler waits for the view", name)
				}
				require.Equal(t, strings.Contains(r.Path, "{id}"), r.Missing != nil, "%s: missing must be set if the path has an id", name)
			}
		}
	}
}

func TestEverySectionIsServed(t *testing.T) {
	made := regexp.MustCompile(`(?m)^func \(s \*Server\) (\w+)\(\) door\.Section \{$`)
	tables, err := filepath.Glob("*/routes.go")
	require.NoError(t, err)
	n := 0
	for _, table := range append(tables, "routes.go") {
		list, err := os.ReadFile(table)
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(filepath.Dir(table), "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, found := range made.FindAllStringSubmatch(string(text), -1) {
				n++
				require.Contains(t, string(list), "s."+found[1]+"()", "%s is missing in %s", file, table)
			}
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
		if r.Intent == nil {
			continue
		}
		for _, body := range []string{"", `{"action":"cancel"}`} { // by which one route asks for several
			name := reflect.TypeOf(r.Intent(&door.Caller{}, events.ID{}, []byte(body))).Name()
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
	long, token := strings.Repeat("W", 200<<10), bearer.NewServiceToken().Reveal()
	log := &appendedLog{}
	handler, denials := commands.New(log, time.Now), 0
	for _, r := range routes() {
		if r.Intent == nil {
			continue
		}
		for _, text := range []string{long, "a " + token + "\n\u202e\x00"} {
			example, err := json.Marshal(r.RequestExample)
			require.NoError(t, err)
			body := map[string]any{}
			if r.RequestExample != nil {
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
			require.NoError(t, handler.RecordDenial(t.Context(), m, r.Intent(&door.Caller{}, events.ID{}, sent), aggregates.ErrRoleRequired))
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

// The largest body of any route needs no more slots than the share of one caller on the smallest
// machine. Otherwise nobody could send it.
func TestLargestBodiesFitShare(t *testing.T) {
	t.Parallel()
	const least = 4 // of partyShare
	for _, section := range New(Config{}).sections() {
		for _, r := range section.Routes {
			slots := door.BodySlots(&http.Request{ContentLength: -1}, r.Limits)
			require.LessOrEqual(t, slots, least, "%s %s", r.Method, r.Path)
			require.LessOrEqual(t, int64(slots-1)*door.SlotBytes, r.Limits.OrDefault().Body)
		}
	}
	require.Equal(t, 1, door.BodySlots(&http.Request{ContentLength: 0}, middleware.Limits{}))
	require.Equal(t, 1, door.BodySlots(&http.Request{ContentLength: door.SlotBytes}, middleware.Limits{Body: 4 * door.SlotBytes}))
	require.Equal(t, 2, door.BodySlots(&http.Request{ContentLength: door.SlotBytes + 1}, middleware.Limits{Body: 4 * door.SlotBytes}))
	require.Equal(t, 4, door.BodySlots(&http.Request{ContentLength: -1}, middleware.Limits{Body: 4 * door.SlotBytes}))
}
