package openapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
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

// serveText serves a text, which is encoded and compressed at the first request. Its two codings have
// tags of their own.
func serveText(media string, encode func() []byte) http.HandlerFunc {
	type coded struct {
		text []byte
		tag  string
	}
	plain := sync.OnceValue(func() coded {
		text := encode()
		sum := sha256.Sum256(text)
		return coded{text, base64.RawURLEncoding.EncodeToString(sum[:12])}
	})
	zipped := sync.OnceValue(func() coded { return coded{middleware.Gzip(plain().text), plain().tag + GzipTag} })
	return func(w http.ResponseWriter, r *http.Request) {
		h, answer := w.Header(), plain()
		h.Set("Content-Type", media)
		h.Set("Cache-Control", "no-cache")
		h.Set("Vary", "Accept-Encoding")
		if middleware.WantsGzip(r.Header, len(answer.text)) {
			answer = zipped()
			h.Set("Content-Encoding", "gzip")
		}
		tag := `"` + answer.tag + `"`
		h.Set("ETag", tag)
		if middleware.MatchesETag(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Length", strconv.Itoa(len(answer.text)))
		_, _ = w.Write(answer.text) // if it fails the client has gone
	}
}
