package openapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"svc/fault"
	"svc/http/middleware"
	"svc/http/openapi"
	"svc/http/reply"
)

type greeting struct {
	ID   string `path:"id"`
	Body struct {
		Name   string   `json:"name" maxLength:"2000"`
		Guests []guest  `json:"guests,omitempty" maxItems:"3"`
		Places []string `json:"places,omitempty"`
	}
}

type guest struct {
	Name string            `json:"name"`
	Says map[string]string `json:"says,omitempty"`
}

type greeted struct {
	Body struct {
		Text string `json:"text"`
	}
}

var errShy = fault.New(fault.Conflict, "shy", "Not now.")

// newAPI returns an API with one operation, whose guard requires an Authorization header.
func newAPI(t *testing.T) (api *openapi.API, left *int) {
	t.Helper()
	left = new(int)
	api = openapi.New(openapi.Config{
		Title: "Parlour", Version: "1", ExampleID: "7", Describe: func(*huma.OpenAPI) {}, Log: slog.New(slog.DiscardHandler),
	})
	type word struct{}
	api.Add(openapi.Operation{
		Method: http.MethodPut, Path: "/greetings/{id}", ID: "greet", Tag: "Greetings", Summary: "Greet", Description: "Says hello.",
		Limits: middleware.Limits{Body: 2 << 10},
		Guard: func(_ http.ResponseWriter, r *http.Request) (context.Context, func(), error) {
			if r.Header.Get("Authorization") == "" {
				return nil, nil, fault.ErrUnauthenticated
			}
			return context.WithValue(r.Context(), word{}, "Hello, "), func() { *left++ }, nil
		},
		Faults:         []*fault.Fault{fault.ErrUnauthenticated, fault.ErrValidation, errShy, reply.TooLarge(2 << 10)},
		RequestExample: map[string]string{"name": "Zoë"}, AnswerExample: map[string]string{"text": "Hello, Zoë"},
	}, openapi.Handle(func(ctx context.Context, in *greeting) (*greeted, error) {
		if in.ID == "0" {
			return nil, errShy
		}
		out := &greeted{}
		out.Body.Text = ctx.Value(word{}).(string) + in.Body.Name
		return out, nil
	}))
	api.ServeDocument("/parlour", "/docs")
	return api, left
}

func TestOperationsCheckTheCallerThenTheBody(t *testing.T) {
	api, left := newAPI(t)
	for name, c := range map[string]struct {
		path, authorization, body string
		status                    int
		want                      string
	}{
		"an answer":               {"/greetings/7", "me", `{"name":"Zoë"}`, 200, `"text":"Hello, Zoë"`},
		"a refusal":               {"/greetings/0", "me", `{"name":"Zoë"}`, 409, `{"code":"shy","message":"Not now.","details":{}}`},
		"the guard comes first":   {"/greetings/7", "", `{"nam`, 401, `"code":"unauthenticated"`},
		"a field twice":           {"/greetings/7", "me", `{"name":"a","name":"b"}`, 422, `"name":["must not be there twice"]`},
		"a field that is null":    {"/greetings/7", "me", `{"name":null}`, 422, `"name":["must not be null"]`},
		"a field that is missing": {"/greetings/7", "me", `{}`, 422, `"name":["is missing"]`},
		"a field too many":        {"/greetings/7", "me", `{"name":"a","age":7}`, 422, `"age":["is not known here"]`},
		"a field twice inside": {"/greetings/7", "me", `{"name":"a","guests":[{"name":"b"},{"name":"c","name":"d"}]}`, 422,
			`"guests.1.name":["must not be there twice"]`},
		"a null inside": {"/greetings/7", "me", `{"name":"a","guests":[{"name":"b","says":{"x":null}}]}`, 422,
			`"guests.0.says.x":["must not be null"]`},
		"one that is missing": {"/greetings/7", "me", `{"name":"a","guests":[{}]}`, 422, `"guests.0.name":["is missing"]`},
		"one too many inside": {"/greetings/7", "me", `{"name":"a","guests":[{"name":"b","age":7}]}`, 422,
			`"guests.0.age":["is not known here"]`},
		"a wrong one in a list": {"/greetings/7", "me", `{"name":"a","places":["x",7]}`, 422, `"places":["must be a string"]`},
		"a null in a list":      {"/greetings/7", "me", `{"name":"a","places":[null]}`, 422, `"places":["must be a string"]`},
		"deep and whole": {"/greetings/7", "me", `{"name":"Zoë","guests":[{"name":"b","says":{"x":"y"}}],"places":["p"]}`, 200,
			`"text":"Hello, Zoë"`},
		"many duplicate fields": {"/greetings/7", "me", `{"name":"a"` + strings.Repeat(`,"b":0`, 150) + `}`, 422,
			`"b":["must not be there twice"]`},
		"too many fields": {"/greetings/7", "me", `{"name":"a"` + strings.Repeat(`,"b":0`, 200), 422,
			`"body":["has too many values, or too many in one list or object"]`},
		"too many items": {"/greetings/7", "me", `{"name":"a","places":[` + strings.Repeat(`7,`, 200), 422,
			`"body":["has too many values, or too many in one list or object"]`},
		"an unknown parameter":    {"/greetings/7?x=1", "me", `{"name":"a"}`, 422, `"x":`},
		"a body beyond its limit": {"/greetings/7", "me", `{"name":"` + strings.Repeat("x", 2<<10) + `"}`, 413, "2 KiB at most"},
		"another method's path":   {"/greetings", "me", `{}`, 404, `"code":"not_found"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			if c.authorization != "" {
				r.Header.Set("Authorization", c.authorization)
			}
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code, w.Body)
			require.Contains(t, w.Body.String(), c.want)
		})
	}
	require.Equal(t, 18, *left, "whoever was let in leaves")
}

// It also lets answers gain properties.
func TestDocumentHasExamplesAndEveryError(t *testing.T) {
	api, _ := newAPI(t)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, w.Code, path)
		return w
	}
	document := get("/parlour.json").Body.String()
	for _, text := range []string{
		`"example":{"name":"Zoë"}`, `"example":{"text":"Hello, Zoë"}`, `"shy":{"summary":"Not now."`,
		`"body_too_large":{"summary":"The body of a request may have 2 KiB at most."`, `"example":"7"`,
	} {
		require.Contains(t, document, text)
	}
	require.Equal(t, 2, strings.Count(document, `"additionalProperties":false`), "of what is sent alone")
	require.Contains(t, get("/parlour.yaml").Body.String(), "operationId: greet")
	page := get("/docs")
	require.Contains(t, page.Body.String(), "<title>Parlour API</title>")
	require.Contains(t, page.Header().Get("Content-Security-Policy"), "script-src 'self'")
	require.Contains(t, get("/docs/start.js").Body.String(), `url: "/parlour.json"`)
	require.Contains(t, get("/docs/swagger-ui.css").Header().Get("Content-Type"), "text/css")
}
