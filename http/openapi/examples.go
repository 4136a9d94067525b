package openapi

import (
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"svc/http/reply"
)

// addExamples adds examples of the request, the answer and each error to an operation of the
// document.
func (a *API) addExamples(o Operation) {
	op := a.documented(o)
	for _, p := range op.Parameters {
		if p.In == "path" {
			p.Example = a.exampleID
		}
	}
	if op.RequestBody != nil {
		setExample(op.RequestBody.Content, o.RequestExample)
	}
	for status, response := range op.Responses {
		if status[0] == '2' {
			setExample(response.Content, o.AnswerExample)
		}
		a.addHeaders(status, response)
	}
	for _, f := range o.Faults {
		for _, media := range op.Responses[strconv.Itoa(f.Kind.Status())].Content {
			if media.Examples == nil {
				media.Examples = map[string]*huma.Example{}
			}
			media.Examples[f.Code] = &huma.Example{Summary: f.Message, Value: reply.BodyOf(f)}
		}
	}
}

// documented returns an operation of the document.
func (a *API) documented(o Operation) *huma.Operation {
	item := a.huma.OpenAPI().Paths[o.Path]
	return map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post,
		http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
	}[o.Method]
}

// addHeaders describes the headers that all answers with a status have.
func (a *API) addHeaders(status string, response *huma.Response) {
	if response.Headers == nil {
		response.Headers = map[string]*huma.Param{}
	}
	add := func(name, text string, example any, kind string) {
		response.Headers[name] = &huma.Header{Description: text, Schema: &huma.Schema{Type: kind, Examples: []any{example}}}
	}
	add("X-Request-Id", "The id of the request in the service's log: the one that was sent, or a new one.", a.exampleID, huma.TypeString)
	if status != "401" {
		add("RateLimit-Limit", "Maximum number of requests that the caller can make at once.", 600, huma.TypeInteger)
		add("RateLimit-Remaining", "Number of requests that the caller can still make.", 599, huma.TypeInteger)
		add("RateLimit-Reset", "Seconds until the full limit is available again.", 1, huma.TypeInteger)
	}
	switch status {
	case "401":
		add("WWW-Authenticate", "The authentication scheme.", "Bearer", huma.TypeString)
	case "429", "503":
		add("Retry-After", "Seconds to wait before retrying.", 1, huma.TypeInteger)
	}
}

// setExample sets the example of JSON content.
func setExample(content map[string]*huma.MediaType, value any) {
	if media := content["application/json"]; media != nil {
		if value == nil {
			panic("an operation has no example")
		}
		media.Example = value
	}
}
