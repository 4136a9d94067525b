package openapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"svc/http/middleware"
)

// Document returns the OpenAPI document. It ends the description: what is added
// afterwards is not in it.
func (a *API) Document() (asJSON, asYAML []byte) {
	o := a.huma.OpenAPI()
	openAnswers(o)
	hideRules(o)
	asJSON, err := json.Marshal(o)
	if err != nil {
		panic(err) // the description is made of our own types
	}
	asYAML, err = o.YAML()
	if err != nil {
		panic(err)
	}
	return asJSON, asYAML
}

// ServeDocument serves the OpenAPI document at path with .json and .yaml, and at docs
// a page to read it.
func (a *API) ServeDocument(path, docs string) {
	asJSON, asYAML := a.Document()
	a.Get(path+".json", middleware.Limits{}, content("application/json", asJSON))
	a.Get(path+".yaml", middleware.Limits{}, content("application/yaml", asYAML))
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

func content(media string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(text)
	}
}
