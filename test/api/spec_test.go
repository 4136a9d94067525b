package api

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"
)

// A spec is the OpenAPI description that a service gives of itself.
type spec struct{ *openapi3.T }

func (v *service) loadSpec(t *testing.T) *spec {
	t.Helper()
	a := v.ask(t, "nobody", "GET /api/openapi.json", "").is(t, "200")
	doc, err := openapi3.NewLoader().LoadFromData([]byte(a.body))
	require.NoError(t, err)
	return &spec{doc}
}

// requireFits fails unless an answer is as the description says. What the
// description does not speak of fits.
func (s *spec) requireFits(t *testing.T, line string, a answer) {
	t.Helper()
	method, target, _ := strings.Cut(line, " ")
	path, _, _ := strings.Cut(target, "?")
	template, operation := s.operation(method, path)
	if operation == nil {
		return
	}
	request := &openapi3filter.RequestValidationInput{
		Request: &http.Request{Method: method, URL: &url.URL{Path: path}},
		Route:   &routers.Route{Spec: s.T, Path: template, PathItem: s.Paths.Value(template), Method: method, Operation: operation},
	}
	err := openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: request, Status: a.status, Header: a.header,
		Body:    io.NopCloser(bytes.NewReader([]byte(a.body))),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	require.NoError(t, err, line)
}

// operation finds what a request is for. Templates have one parameter at most.
func (s *spec) operation(method, path string) (template string, o *openapi3.Operation) {
	for template, item := range s.Paths.Map() {
		before, after, has := strings.Cut(template, "{id}")
		rest, ok := strings.CutPrefix(path, before)
		id, end := strings.CutSuffix(rest, after)
		if ok && (!has && rest == "" || has && end && id != "" && !strings.Contains(id, "/")) {
			return template, item.GetOperation(method)
		}
	}
	return "", nil
}
