package rest

import (
	"io"
	"log/slog"
	"net/http"

	"svc/http/openapi"
	"svc/http/rest/door"
	"svc/http/rest/schema"
	"svc/http/router"
)

const docsPath = "/api/docs"

// Handler returns the handler of /api/v1, /api/openapi and /api/docs.
func (s *Server) Handler() http.Handler {
	api := s.api()
	api.ServeDocument("/api/openapi", docsPath)
	return api
}

func (s *Server) api() *openapi.API {
	api := openapi.New(openapi.Config{
		Title: "Workspace Service", Version: Version, Describe: s.describe, ExampleID: schema.ExampleID, Log: s.Log,
		Encoded: door.ReleaseWorkspace,
	})
	s.Mount(api, s.sections())
	for _, m := range s.Machines {
		api.Add(m.Operation, m.Handler)
	}
	return api
}

// Health returns the handler of /health.
func (s *Server) Health() http.Handler {
	routes := router.New(router.Refuse(s.Log, router.ErrNotFound), router.Refuse(s.Log, router.ErrMethod))
	routes.Handle(router.Route{Method: http.MethodGet, Path: "/health/live", Handler: http.HandlerFunc(live)})
	routes.Handle(router.Route{Method: http.MethodGet, Path: "/health/ready", Handler: http.HandlerFunc(s.health.ready)})
	return routes
}

// Describe writes the OpenAPI document as JSON, without a running service. Clients are generated
// from it. It leaves out the routes of build machines.
func Describe(w io.Writer) error {
	s := New(Config{Origin: "http://localhost:4000", Log: slog.New(slog.DiscardHandler)})
	_, err := w.Write(append(s.api().Document().JSON(), '\n'))
	return err
}
