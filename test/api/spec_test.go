package api

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// A spec is the OpenAPI description that a service gives of itself.
type spec struct {
	paths    map[string]any
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

const specURL = "http://spec/openapi.json"

func (v *service) loadSpec(t *testing.T) *spec {
	t.Helper()
	doc := parsed(t, v.ask(t, "nobody", "GET /api/openapi.json", "").is(t, "200").body)
	closeSchemas(t, doc)
	s := &spec{paths: doc.(map[string]any)["paths"].(map[string]any), compiler: jsonschema.NewCompiler()}
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	require.NoError(t, s.compiler.AddResource(specURL, doc))
	return s
}

// closeSchemas makes what is not described a mistake. The description itself
// leaves room for what later versions will answer.
func closeSchemas(t *testing.T, doc any) {
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

func parsed(t *testing.T, text string) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	return value
}

// requireFits fails unless an answer is as the description says: of a status
// that is listed there, and with a body of that form. What the description
// does not speak of fits.
func (s *spec) requireFits(t *testing.T, line string, a answer) {
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
	if media != "application/json" {
		return // text has no form
	}
	schema := s.schema(t, "paths", template, strings.ToLower(method), "responses", fmt.Sprint(a.status), "content", media, "schema")
	require.NoError(t, schema.Validate(parsed(t, a.body)), line)
	if a.status >= 400 {
		_, ok := at(response, "content", media, "examples", a.text(t, "code"))
		require.True(t, ok, "%s: %d %s is not described", line, a.status, a.text(t, "code"))
	}
}

// schema compiles the schema at a place of the description.
func (s *spec) schema(t *testing.T, place ...string) *jsonschema.Schema {
	t.Helper()
	pointer := ""
	for _, name := range place {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	schema, err := s.compiler.Compile(specURL + "#" + pointer)
	require.NoError(t, err)
	return schema
}

// template finds what a request is for, such as /api/v1/runs/{id}. Templates
// have one parameter at most.
func (s *spec) template(line string) string {
	_, target, _ := strings.Cut(line, " ")
	path, _, _ := strings.Cut(target, "?")
	if _, ok := s.paths[path]; ok {
		return path // /audit/export is no /audit/{id}
	}
	parts := strings.Split(path, "/")
	for template := range s.paths {
		names := strings.Split(template, "/")
		fits := len(names) == len(parts)
		for i := 0; fits && i < len(names); i++ {
			fits = names[i] == parts[i] || strings.HasPrefix(names[i], "{") && parts[i] != ""
		}
		if fits {
			return template
		}
	}
	return ""
}

// at returns what is at a place of decoded JSON.
func at(value any, place ...string) (found any, ok bool) {
	for _, name := range place {
		object, is := value.(map[string]any)
		if !is {
			return nil, false
		}
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}
