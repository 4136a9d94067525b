package api

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// testDescription shows that the API's description is true to form, complete,
// and can be read in a browser without asking any other site. That answers are
// as it says is checked wherever answers are seen.
func testDescription(t *testing.T, s *site) {
	v := s.serve(t, s.clone(t))
	text := v.ask(t, "nobody", "GET /api/openapi.json", "").is(t, "200")
	require.Equal(t, "application/json", text.header.Get("Content-Type"))

	t.Run("JSON and YAML say the same", func(t *testing.T) {
		a := v.ask(t, "nobody", "GET /api/openapi.yaml", "").is(t, "200")
		require.Equal(t, "application/yaml", a.header.Get("Content-Type"))
		var content any
		require.NoError(t, yaml.Unmarshal([]byte(a.body), &content))
		again, err := json.Marshal(content)
		require.NoError(t, err)
		require.JSONEq(t, text.body, string(again))
	})

	t.Run("it is complete", func(t *testing.T) {
		doc := parsed(t, text.body)
		require.Regexp(t, `^3\.1\.`, must(t, doc, "openapi"))
		require.Equal(t, "0.39.0", must(t, doc, "info", "version"))
		require.Equal(t, []any{map[string]any{"url": "/"}}, must(t, doc, "servers"))
		ids := map[any]bool{}
		d := v.loadSpec(t)
		require.NotEmpty(t, d.routes())
		for _, route := range d.routes() {
			method, path, _ := strings.Cut(route, " ")
			require.True(t, strings.HasPrefix(path, "/api/v1/"), path)
			o := must(t, d.paths, path, strings.ToLower(method))
			id := must(t, o, "operationId")
			require.False(t, ids[id], "%s is there twice", id)
			ids[id] = true
			d.requireDescribed(t, method, path)
		}
	})

	t.Run("a browser reads it without another site", func(t *testing.T) {
		page := v.ask(t, "nobody", "GET /api/docs", "").is(t, "200")
		require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
		policy := strings.Split(page.header.Get("Content-Security-Policy"), "; ")
		require.Contains(t, policy, "default-src 'none'")
		require.Contains(t, policy, "script-src 'self'")
		require.Contains(t, policy, "connect-src 'self'")
		require.NotContains(t, page.body, "://")
		require.NotRegexp(t, `<script>|<script [^>]*>[^<]|\son\w+=`, page.body, "script that the policy forbids")

		links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page.body, -1)
		require.GreaterOrEqual(t, len(links), 4)
		for _, link := range links {
			require.Regexp(t, `^/[^/]`, link[1])
			v.requireFile(t, link[1])
		}
	})
}

// requireFile fetches a file of the page, plain and compressed.
func (v *service) requireFile(t *testing.T, path string) {
	t.Helper()
	a := v.ask(t, "nobody", "GET "+path, "").is(t, "200")
	kinds := map[string]string{"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "png": "image/png"}
	require.Equal(t, kinds[path[strings.LastIndexByte(path, '.')+1:]], a.header.Get("Content-Type"), path)
	require.NotEmpty(t, a.body)
	if strings.HasSuffix(path, ".css") {
		require.NotRegexp(t, `(@import|url\(["']?(https?:)?//)`, a.body, path)
	}
	if strings.HasSuffix(path, "start.js") {
		require.Contains(t, a.body, `"/api/openapi.json"`)
		require.NotContains(t, a.body, "://")
	}
	packed := v.ask(t, "nobody", "GET "+path, "", "Accept-Encoding: gzip").is(t, "200")
	if packed.header.Get("Content-Encoding") == "gzip" {
		require.Less(t, len(packed.body), len(a.body), path)
	}
}

// requireDescribed checks what every operation must say of itself, and that
// its schemas are JSON Schema whose references lead somewhere.
func (s *spec) requireDescribed(t *testing.T, method, path string) {
	t.Helper()
	place := []string{path, strings.ToLower(method)}
	o := must(t, s.paths, place...)
	fields, statuses := []string{"operationId", "summary", "description", "tags"}, []string{"401", "404", "422", "429", "500", "503"}
	if path != enrols {
		fields, statuses = append(fields, "security"), append(statuses, "403")
	}
	for _, field := range fields {
		require.NotEmpty(t, must(t, o, field), path)
	}
	parameters, _ := at(o, "parameters")
	inPath := strings.Count(path, "{")
	list, _ := parameters.([]any)
	for _, p := range list {
		require.NotEmpty(t, must(t, p, "schema"), path)
		if must(t, p, "in") == "path" {
			require.Equal(t, true, must(t, p, "required"), path)
			require.Contains(t, path, "{"+must(t, p, "name").(string)+"}")
			inPath--
		}
	}
	require.Zero(t, inPath, "%s: parameters that are not described", path)

	responses := must(t, o, "responses").(map[string]any)
	for _, status := range statuses {
		require.Contains(t, responses, status, path)
	}
	for status, response := range responses {
		require.NotEmpty(t, must(t, response, "description"), path)
		content, _ := at(response, "content")
		if !slices.Contains([]string{"101", "204", "304", "416"}, status) {
			require.NotEmpty(t, content, path)
		}
		media, _ := content.(map[string]any)
		for name, described := range media {
			schema := s.schema(t, append(append([]string{"paths"}, place...), "responses", status, "content", name, "schema")...)
			if name == "application/json" { // an export is text
				requireExamples(t, schema, described, method+" "+path+" "+status)
			}
		}
	}
	// not multipart
	if body, ok := at(o, "requestBody"); ok && (!ofMachines(strings.ToUpper(place[1]), path) || strings.HasPrefix(path, enrols)) {
		needed, _ := at(body, "required")
		wordless := slices.Contains([]string{"cancel", "drain", "revoke"}, path[strings.LastIndexByte(path, '/')+1:])
		require.Equal(t, !wordless, needed == true, path)
		schema := s.schema(t, append(append([]string{"paths"}, place...), "requestBody", "content", "application/json", "schema")...)
		requireExamples(t, schema, must(t, body, "content", "application/json"), method+" "+path)
	}
}

// requireExamples requires that a body has an example, or one of each refusal,
// and that they have the form that they illustrate.
func requireExamples(t *testing.T, schema *jsonschema.Schema, media any, what string) {
	t.Helper()
	if one, ok := at(media, "example"); ok {
		require.NoError(t, schema.Validate(one), what)
		return
	}
	for code, one := range must(t, media, "examples").(map[string]any) {
		require.NoError(t, schema.Validate(must(t, one, "value")), what)
		require.Equal(t, code, must(t, one, "value", "code"), what)
		require.NotEmpty(t, must(t, one, "summary"), what)
	}
}

func must(t *testing.T, value any, place ...string) any {
	t.Helper()
	found, ok := at(value, place...)
	require.True(t, ok, "nothing at %q", place)
	return found
}
