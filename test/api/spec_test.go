package api

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// A spec is the OpenAPI document that a service publishes.
type spec struct {
	paths    map[string]any
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

const specURL = "http://spec/openapi.json"

// loadSpec fetches the OpenAPI document and closes its schemas; see [forbidUndescribedFields].
func (v *service) loadSpec(t *testing.T) *spec {
	t.Helper()
	doc := parseJSON(t, v.ask(t, "nobody", "GET /api/openapi.json", "").is(t, "200").body)
	forbidUndescribedFields(t, doc)
	s := &spec{paths: doc.(map[string]any)["paths"].(map[string]any), compiler: jsonschema.NewCompiler()}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	require.NoError(t, s.compiler.AddResource(specURL, doc))
	return s
}

// forbidUndescribedFields makes schemas reject fields that they do not list. The published document
// allows them, since later versions may add fields.
func forbidUndescribedFields(t *testing.T, doc any) {
	t.Helper()
	schemas, ok := at(doc, "components", "schemas")
	require.True(t, ok)
	for _, schema := range schemas.(map[string]any) {
		s := schema.(map[string]any)
		if _, ok := s["additionalProperties"]; !ok && s["properties"] != nil {
			s["additionalProperties"] = false
		}
	}
}

func parseJSON(t *testing.T, text string) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	return value
}

// requireConforms requires that an answer has a status, media type, body and error code that the document
// lists for the operation. It accepts any answer of an operation that the document does not contain.
func (s *spec) requireConforms(t *testing.T, line string, a answer) {
	t.Helper()
	template := s.template(line)
	method, _, _ := strings.Cut(line, " ")
	operation, ok := at(s.paths, template, strings.ToLower(method))
	if !ok {
		return
	}
	response, ok := at(operation, "responses", fmt.Sprint(a.status))
	require.True(t, ok, "%s: status %d is not described", line, a.status)
	if _, ok := at(response, "headers", "X-Svc-Position"); ok {
		require.Regexp(t, `^\d+$`, a.header.Get("X-Svc-Position"), line)
	}
	if _, ok := at(response, "content"); !ok {
		require.Empty(t, a.body, line)
		return
	}
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	_, ok = at(response, "content", media)
	require.True(t, ok, "%s: %s is not described", line, media)
	path := []string{"paths", template, strings.ToLower(method), "responses", fmt.Sprint(a.status), "content", media, "schema"}
	if media == "application/x-ndjson" {
		schema := s.schema(t, append(path, "items")...)
		for text := range strings.Lines(a.body) {
			require.NoError(t, schema.Validate(parseJSON(t, text)), line)
		}
		return
	}
	if media != "application/json" {
		return // only JSON has a schema
	}
	schema := s.schema(t, path...)
	require.NoError(t, schema.Validate(parseJSON(t, a.body)), line)
	if a.status >= 400 {
		_, ok := at(response, "content", media, "examples", a.text(t, "code"))
		require.True(t, ok, "%s: %d %s is not described", line, a.status, a.text(t, "code"))
	}
}

// schema compiles the schema at a path of the document.
func (s *spec) schema(t *testing.T, path ...string) *jsonschema.Schema {
	t.Helper()
	pointer := ""
	for _, name := range path {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	schema, err := s.compiler.Compile(specURL + "#" + pointer)
	require.NoError(t, err)
	return schema
}

// template returns the path template of a request line, such as /api/v1/runs/{id}, or "" if none matches.
func (s *spec) template(line string) string {
	_, target, _ := strings.Cut(line, " ")
	path, _, _ := strings.Cut(target, "?")
	if _, ok := s.paths[path]; ok {
		return path // /audit/export is not /audit/{id}
	}
	parts := strings.Split(path, "/")
	for template := range s.paths {
		names := strings.Split(template, "/")
		matches := len(names) == len(parts)
		for i := 0; matches && i < len(names); i++ {
			matches = names[i] == parts[i] || strings.HasPrefix(names[i], "{") && parts[i] != ""
		}
		if matches {
			return template
		}
	}
	return ""
}

// at returns the value at a path of decoded JSON objects.
func at(value any, path ...string) (found any, ok bool) {
	for _, name := range path {
		object, isObject := value.(map[string]any)
		if !isObject {
			return nil, false
		}
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}
