package openapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"svc/http/middleware"
)

// A Document is the complete OpenAPI document of an API.
type Document struct{ description *huma.OpenAPI }

// Document returns the document. No operations may be added after that.
func (a *API) Document() Document {
	o := a.huma.OpenAPI()
	allowNewProperties(o)
	removePatternDescriptions(o)
	return Document{o}
}

// JSON returns the document as JSON.
func (d Document) JSON() []byte { return mustEncode(json.Marshal(d.description)) }

// YAML returns the document as YAML.
func (d Document) YAML() []byte { return mustEncode(d.description.YAML()) }

// mustEncode returns text, and panics on an error.
func mustEncode(text []byte, err error) []byte {
	if err != nil {
		panic(err) // the document has only known types
	}
	return text
}

// ServeDocument serves the OpenAPI document at path with .json and .yaml, and a page to read it at
// docs. Each form is encoded at the first request: encoding takes ten times as long as setting up
// the rest of the API.
func (a *API) ServeDocument(path, docs string) {
	d := a.Document()
	a.Get(path+".json", middleware.Limits{}, serveText("application/json", sync.OnceValue(d.JSON)))
	a.Get(path+".yaml", middleware.Limits{}, serveText("application/yaml", sync.OnceValue(d.YAML)))
	a.serveDocs(docs, path+".json")
}

// allowNewProperties lets answers gain properties in later versions, which huma's default forbids:
// clients that validate would break. Request bodies stay closed, since unknown properties are
// refused.
func allowNewProperties(o *huma.OpenAPI) {
	requestSchemas := map[string]bool{}
	for _, item := range o.Paths {
		for _, op := range []*huma.Operation{item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil && op.RequestBody != nil {
				for _, media := range op.RequestBody.Content {
					collectRefs(o.Components.Schemas, media.Schema, requestSchemas)
				}
			}
		}
	}
	for name, schema := range o.Components.Schemas.Map() {
		if !requestSchemas[name] && schema.AdditionalProperties == false {
			schema.AdditionalProperties = nil
		}
	}
}

// removePatternDescriptions removes huma's descriptions of patterns, which OpenAPI does not have.
// Errors still use them.
func removePatternDescriptions(o *huma.OpenAPI) {
	for _, schema := range o.Components.Schemas.Map() {
		for _, property := range schema.Properties {
			property.PatternDescription = ""
		}
	}
}

// collectRefs adds to names the schemas that a schema refers to, directly or indirectly.
func collectRefs(all huma.Registry, schema *huma.Schema, names map[string]bool) {
	if schema == nil {
		return
	}
	if name, ok := strings.CutPrefix(schema.Ref, "#/components/schemas/"); ok {
		if names[name] {
			return
		}
		names[name] = true
		schema = all.Map()[name]
	}
	collectRefs(all, schema.Items, names)
	for _, property := range schema.Properties {
		collectRefs(all, property, names)
	}
}

func serveText(media string, text func() []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(text())
	}
}
