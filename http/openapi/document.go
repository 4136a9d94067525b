package openapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"svc/http/middleware"
)

// A Document is the OpenAPI document of an API that has all its operations.
type Document struct{ description *huma.OpenAPI }

// Document returns the document. It ends the description: operations are added before.
func (a *API) Document() Document {
	o := a.huma.OpenAPI()
	openAnswers(o)
	hideRules(o)
	return Document{o}
}

// JSON returns the document as JSON.
func (d Document) JSON() []byte { return written(json.Marshal(d.description)) }

// YAML returns the document as YAML.
func (d Document) YAML() []byte { return written(d.description.YAML()) }

func written(text []byte, err error) []byte {
	if err != nil {
		panic(err) // the description is made of our own types
	}
	return text
}

// ServeDocument serves the OpenAPI document at path with .json and .yaml, and at docs
// a page to read it. Each form is written when it is first asked for: it takes ten times as
// long as all else that is done to serve an API.
func (a *API) ServeDocument(path, docs string) {
	d := a.Document()
	a.Get(path+".json", middleware.Limits{}, content("application/json", sync.OnceValue(d.JSON)))
	a.Get(path+".yaml", middleware.Limits{}, content("application/yaml", sync.OnceValue(d.YAML)))
	a.serveDocs(docs, path+".json")
}

// openAnswers lets answers get further properties in later versions, where huma
// says that there are no others: clients that check would break. What is sent
// stays closed, because properties that are unknown are refused.
func openAnswers(o *huma.OpenAPI) {
	sent := map[string]bool{}
	for _, item := range o.Paths {
		for _, op := range []*huma.Operation{item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil && op.RequestBody != nil {
				for _, media := range op.RequestBody.Content {
					gather(o.Components.Schemas, media.Schema, sent)
				}
			}
		}
	}
	for name, schema := range o.Components.Schemas.Map() {
		if !sent[name] && schema.AdditionalProperties == false {
			schema.AdditionalProperties = nil
		}
	}
}

// hideRules takes out huma's words for patterns, of which OpenAPI knows nothing.
// The refusals have them.
func hideRules(o *huma.OpenAPI) {
	for _, schema := range o.Components.Schemas.Map() {
		for _, property := range schema.Properties {
			property.PatternDescription = ""
		}
	}
}

// gather notes the names of all schemas that one refers to.
func gather(all huma.Registry, schema *huma.Schema, names map[string]bool) {
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
	gather(all, schema.Items, names)
	for _, property := range schema.Properties {
		gather(all, property, names)
	}
}

func content(media string, text func() []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(text())
	}
}
