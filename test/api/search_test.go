package api

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// testSearch searches by name for objects, also for those that the caller may not see.
func testSearch(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	runner := v.enrolRunner(t, "ada@acme")
	name := v.ask(t, "ada@acme", "GET /api/v1/farm/runners/"+runner, "").is(t, "200").text(t, "name")
	found := func(as, q, kind, field string) (list []string) {
		body := v.ask(t, as, "GET /api/v1/search?q="+q, "").is(t, "200")
		for i := range body.at(t, kind).([]any) {
			list = append(list, fmt.Sprint(body.at(t, fmt.Sprintf("%s.%d.%s", kind, i, field))))
		}
		return list
	}
	require.Equal(t, []string{"Mia Torres"}, found("vera@acme", "mia@", "members", "name"))
	require.Equal(t, []string{"Mia Torres"}, found("vera@acme", "TORR", "members", "name"))
	require.Contains(t, found("mia@acme", "CI", "serviceAccounts", "name"), "ci-bot")
	require.Empty(t, found("vera@acme", "ci", "serviceAccounts", "name"))
	require.Equal(t, []string{name}, found("vera@acme", name[1:], "runners", "name"))
	require.Equal(t, "286", found("vera@acme", "286", "runs", "issueNumber")[0])
	require.Equal(t, "286", found("vera@acme", "%23286", "runs", "issueNumber")[0])
	require.LessOrEqual(t, len(found("vera@acme", "a", "runs", "id")), 5)
	require.Empty(t, found("vera@acme", "%20", "members", "name"))
	job := v.ask(t, "mia@acme", "POST /api/v1/farm/jobs", `{"name": "Sought job", "steps": [{"run": "true"}], "sandbox": {"kind": "none"}}`).
		is(t, "201").text(t, "job.id")
	require.Equal(t, []string{job}, found("vera@acme", "sought", "jobs", "id"))
	require.Empty(t, found("greta@globex", "sought", "jobs", "id"))

	require.Empty(t, found("greta@globex", "vera@", "members", "name"))
	require.Empty(t, found("greta@globex", name, "runners", "name"))
	require.Empty(t, found("greta@globex", "ci-bot", "serviceAccounts", "name"))
	v.ask(t, "vera@acme", "GET /api/v1/search", "").is(t, "422 validation_failed")
	v.ask(t, "vera@acme", "GET /api/v1/search?q=a&limit=21", "").is(t, "422 validation_failed")
}
