// Package openapi makes an HTTP API of Go types. An operation decodes its input, refuses
// what does not fit with the body of every error, and is described, with examples, in
// an OpenAPI document, which comes with a page to read it. Underneath is huma. What the
// API is about this package does not know.
package openapi

import (
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"svc/http/middleware"
	"svc/http/router"
)

// Config is what an API is made of.
type Config struct {
	Title, Version string
	Describe       func(*huma.OpenAPI) // what the document says beside operations
	ExampleID      string              // stands in the document for every id
	Log            *slog.Logger
}

// An API serves operations, and plain paths beside them.
type API struct {
	huma      huma.API
	router    *router.Router
	exampleID string
	log       *slog.Logger
}

// New returns an API without operations.
func New(c Config) *API {
	routes := router.New(router.Refuse(c.Log, router.ErrNotFound), router.Refuse(c.Log, router.ErrMethod))
	config := huma.DefaultConfig(c.Title, c.Version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", "", nil
	config.RejectUnknownQueryParameters = true
	form := huma.Format{Marshal: writeEncoded, Unmarshal: unmarshal}
	config.Formats = map[string]huma.Format{"application/json": form, "json": form}
	config.Transformers = []huma.Transformer{encode}
	c.Describe(config.OpenAPI)
	return &API{huma: huma.NewAPI(config, adapter{routes}), router: routes, exampleID: c.ExampleID, log: c.Log}
}

// Get serves a path that is no operation.
func (a *API) Get(path string, l middleware.Limits, serve http.HandlerFunc) {
	a.router.Handle(router.Route{Method: http.MethodGet, Path: path, Limits: l, Handler: serve})
}

// ServeHTTP serves everything that was added.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }

// adapter makes routes of what huma registers.
type adapter struct{ *router.Router }

// limitsKey is where [API.Add] leaves the limits of an operation.
const limitsKey = "limits"

// Handle adds an operation.
func (a adapter) Handle(o *huma.Operation, serve func(huma.Context)) {
	limits, _ := o.Metadata[limitsKey].(middleware.Limits)
	a.Router.Handle(router.Route{
		Method: o.Method, Path: o.Path, Limits: limits,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(humago.NewContext(o, r, w)) }),
	})
}
