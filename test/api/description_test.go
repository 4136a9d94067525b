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

// testDescription shows that the OpenAPI document is valid and complete, and that its page loads nothing
// from other sites. testAccess and testConversations check that answers conform to it.
func testDescription(t *testing.T, s *fixture) {
	v := s.serve(t, s.cloneDatabase(t))
	text := v.ask(t, "nobody", "GET /api/openapi.json", "").is(t, "200")
	require.Equal(t, "application/json", text.header.Get("Content-Type"))

	t.Run("JSON and YAML are equal", func(t *testing.T) {
		a := v.ask(t, "nobody", "GET /api/openapi.yaml", "").is(t, "200")
		require.Equal(t, "application/yaml", a.header.Get("Content-Type"))
		var content any
		require.NoError(t, yaml.Unmarshal([]byte(a.body), &content))
		again, err := json.Marshal(content)
		require.NoError(t, err)
		require.JSONEq(t, text.body, string(again))
	})

	t.Run("complete", func(t *testing.T) {
		doc := parseJSON(t, text.body)
		require.Regexp(t, `^3\.1\.`, mustAt(t, doc, "openapi"))
		require.Equal(t, "0.39.0", mustAt(t, doc, "info", "version"))
		require.Equal(t, []any{map[string]any{"url": "/"}}, mustAt(t, doc, "servers"))
		ids := map[any]bool{}
		d := v.loadSpec(t)
		require.NotEmpty(t, d.routes())
		for _, route := range d.routes() {
			method, path, _ := strings.Cut(route, " ")
			require.True(t, strings.HasPrefix(path, "/api/v1/"), path)
			o := mustAt(t, d.paths, path, strings.ToLower(method))
			id := mustAt(t, o, "operationId")
			require.False(t, ids[id], "%s is there twice", id)
			ids[id] = true
			d.requireDescribed(t, method, path)
		}
	})

	t.Run("the page loads nothing from other sites", func(t *testing.T) {
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
			v.requireAsset(t, link[1])
		}
	})
}

// requireAsset fetches a file of the page, uncompressed and with gzip.
func (v *service) requireAsset(t *testing.T, path string) {
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

// requireDescribed requires what every operation must have: texts, parameters, responses with examples, and
// schemas that compile, with all their references resolved.
func (s *spec) requireDescribed(t *testing.T, method, path string) {
	t.Helper()
	keys := []string{path, strings.ToLower(method)}
	o := mustAt(t, s.paths, keys...)
	fields, statuses := []string{"operationId", "summary", "description", "tags"}, []string{"401", "404", "422", "429", "500", "503"}
	if path != registrationsPath {
		fields, statuses = append(fields, "security"), append(statuses, "403")
	}
	for _, field := range fields {
		require.NotEmpty(t, mustAt(t, o, field), path)
	}
	parameters, _ := at(o, "parameters")
	inPath := strings.Count(path, "{")
	list, _ := parameters.([]any)
	for _, p := range list {
		require.NotEmpty(t, mustAt(t, p, "schema"), path)
		if mustAt(t, p, "in") == "path" {
			require.Equal(t, true, mustAt(t, p, "required"), path)
			require.Contains(t, path, "{"+mustAt(t, p, "name").(string)+"}")
			inPath--
		}
	}
	require.Zero(t, inPath, "%s: path parameters without a description", path)

	responses := mustAt(t, o, "responses").(map[string]any)
	for _, status := range statuses {
		require.Contains(t, responses, status, path)
	}
	for status, response := range responses {
		require.NotEmpty(t, mustAt(t, response, "description"), path)
		content, _ := at(response, "content")
		if !slices.Contains([]string{"101", "204", "304"}, status) {
			require.NotEmpty(t, content, path)
		}
		media, _ := content.(map[string]any)
		for name, described := range media {
			schema := s.schema(t, append(append([]string{"paths"}, keys...), "responses", status, "content", name, "schema")...)
			if name == "application/json" { // exports have no schema
				requireExamples(t, schema, described, method+" "+path+" "+status)
			}
		}
	}
	// Uploads of artifacts are multipart and have no example.
	if body, ok := at(o, "requestBody"); ok && (!isRunnerRoute(method, path) || strings.HasPrefix(path, registrationsPath)) {
		required, _ := at(body, "required")
		optional := slices.Contains([]string{"cancel", "drain", "revoke"}, path[strings.LastIndexByte(path, '/')+1:])
		require.Equal(t, !optional, required == true, path)
		schema := s.schema(t, append(append([]string{"paths"}, keys...), "requestBody", "content", "application/json", "schema")...)
		requireExamples(t, schema, mustAt(t, body, "content", "application/json"), method+" "+path)
	}
}

// requireExamples requires that a body has an example, or one for each error code, and that they conform to
// the schema. about is for failure messages.
func requireExamples(t *testing.T, schema *jsonschema.Schema, media any, about string) {
	t.Helper()
	if example, ok := at(media, "example"); ok {
		require.NoError(t, schema.Validate(example), about)
		return
	}
	for code, example := range mustAt(t, media, "examples").(map[string]any) {
		require.NoError(t, schema.Validate(mustAt(t, example, "value")), about)
		require.Equal(t, code, mustAt(t, example, "value", "code"), about)
		require.NotEmpty(t, mustAt(t, example, "summary"), about)
	}
}

// mustAt returns the value at a path of decoded JSON objects, and fails the test if there is none.
func mustAt(t *testing.T, value any, path ...string) any {
	t.Helper()
	found, ok := at(value, path...)
	require.True(t, ok, "nothing at %q", path)
	return found
}
