package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testParameters sends every parameter in the OpenAPI document empty and twice, and requires a refusal. An
// empty or repeated parameter that was ignored would answer another request than the one that was meant.
func testParameters(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	before := v.logHeads(t)
	d := v.loadSpec(t)
	count := map[any]int{}
	for _, route := range d.routes() {
		method, template, _ := strings.Cut(route, " ")
		parameters, _ := at(d.paths, template, strings.ToLower(method), "parameters")
		list, _ := parameters.([]any) // routes of runners have none
		for _, p := range list {
			name, in := mustAt(t, p, "name").(string), mustAt(t, p, "in")
			count[in]++
			t.Run(route+" "+name, func(t *testing.T) {
				switch in {
				case "query":
					v.requireQueryOnce(t, route, name)
				case "header":
					v.requireHeaderOnce(t, route, name)
				}
			})
		}
	}
	require.GreaterOrEqual(t, count["query"], 40)
	require.GreaterOrEqual(t, count["header"], 40)
	all := v.ask(t, asReader, "GET /api/v1/runs?status=&repo=&limit=1&limit=2&q=a", "").is(t, "422 validation_failed").at(t, "details")
	require.Len(t, all, 3, "all mistakes are reported")
	require.Equal(t, before, v.logHeads(t), "something was stored")
}

// requireQueryOnce requires that an empty or repeated query parameter is refused.
func (v *service) requireQueryOnce(t *testing.T, route, name string) {
	t.Helper()
	line := strings.ReplaceAll(route, "{id}", noID) + "?"
	for query, want := range map[string]string{
		name:                       "must not be empty",
		name + "=":                 "must not be empty",
		name + "=1&" + name + "=1": "must not be sent twice",
		name + "=1&" + name + "=2": "must not be sent twice",
		name + "=&" + name + "=1":  "must not be sent twice",
	} {
		a := v.ask(t, asOwner, line+query, "").is(t, "422 validation_failed", query)
		require.Equal(t, map[string]any{name: []any{want}}, a.at(t, "details"), query)
	}
}

// requireHeaderOnce requires that an empty or repeated header is refused, where HTTP gives it no meaning.
func (v *service) requireHeaderOnce(t *testing.T, route, name string) {
	t.Helper()
	line := strings.ReplaceAll(route, "{id}", noID)
	switch name {
	case "If-None-Match": // a list, which may have several lines
		if strings.HasSuffix(route, "/dashboard") { // there is no artifact to ask for
			etag := v.ask(t, asOwner, line, "").is(t, "200").header.Get("ETag")
			v.ask(t, asOwner, line, "", name+`: "other"`, name+": "+etag).is(t, "304")
		}
		return
	case "Range", "If-Range", "If-Match", "Sec-WebSocket-Protocol": // RFC 9110 and RFC 6455 define which line counts
		return
	case "X-Svc-Min-Position", "Idempotency-Key":
		a := v.ask(t, asOwner, line, "", name+": ").is(t, "422 validation_failed")
		require.Equal(t, map[string]any{name: []any{"must not be empty"}}, a.at(t, "details"))
	}
	a := v.ask(t, "ada", line, "", name+": 1", name+": 1").is(t, "422 validation_failed")
	require.Equal(t, map[string]any{name: []any{"must not be sent twice"}}, a.at(t, "details"))
}
