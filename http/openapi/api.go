// Package openapi builds an HTTP API from Go types, on top of huma. An operation decodes and
// validates its input, answers invalid input with the common error body, and is described with
// examples in an OpenAPI document, which is served with a page to read it. The package knows
// nothing about the product.
package openapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"svc/http/middleware"
	"svc/http/router"
)

// A Config configures an API.
type Config struct {
	Title, Version string
	Describe       func(*huma.OpenAPI)   // adds to the document what is not about operations
	ExampleID      string                // example of every id in the document
	Encoded        func(context.Context) // called when an answer is encoded, before it is written; may be nil
	Log            *slog.Logger
}

// An API serves operations, and other paths.
type API struct {
	http.Handler // serves all added operations and paths

	huma      huma.API
	router    *router.Router
	exampleID string
	encoded   func(context.Context)
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
	a := &API{Handler: routes, router: routes, exampleID: c.ExampleID, encoded: c.Encoded, log: c.Log}
	config.Transformers = []huma.Transformer{a.encode}
	c.Describe(config.OpenAPI)
	a.huma = huma.NewAPI(config, adapter{routes})
	return a
}

// Get adds a path that is not an operation of the document.
func (a *API) Get(path string, l middleware.Limits, serve http.HandlerFunc) {
	a.router.Handle(router.Route{Method: http.MethodGet, Path: path, Limits: l, Handler: serve})
}

// An adapter adds the operations that huma registers to a router.
type adapter struct{ *router.Router }

// limitsKey is the metadata key under which [API.Add] passes the limits of an operation to the
// adapter.
const limitsKey = "limits"

// Handle implements [huma.Adapter].
func (a adapter) Handle(o *huma.Operation, serve func(huma.Context)) {
	limits, _ := o.Metadata[limitsKey].(middleware.Limits)
	a.Router.Handle(router.Route{
		Method: o.Method, Path: o.Path, Limits: limits,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(humago.NewContext(o, r, w)) }),
	})
}
