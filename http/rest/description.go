package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/julienschmidt/httprouter"

	"svc/http/reply"
)

var errBody = errors.New("must be JSON that fits the description")

// unmarshal reads JSON whose texts can be kept as they are. Its error
// is shown to the caller, and so it is one of ours: the decoder's own
// would quote what was sent.
func unmarshal(data []byte, v any) error {
	if !reply.Storable(data) || json.Unmarshal(data, v) != nil {
		return errBody
	}
	return checkFields(data)
}

// encoded is an answer as it is sent.
type encoded []byte

// encode encodes an answer while its header can still say how long it is. It is
// then sent at one stroke, which takes half the time of sending it in chunks.
func encode(ctx huma.Context, status string, answer any) (any, error) {
	if status == "204" || status == "304" {
		return answer, nil
	}
	var b bytes.Buffer
	if err := huma.DefaultJSONFormat.Marshal(&b, answer); err != nil {
		return nil, err
	}
	ctx.SetHeader("Content-Length", strconv.Itoa(b.Len()))
	return encoded(b.Bytes()), nil
}

func writeEncoded(w io.Writer, answer any) error {
	_, err := w.Write(answer.(encoded))
	return err
}

// checkFields refuses a field that a valid body has twice, of which the decoder
// would take the last one and others the first, and one that is null: no field may
// be, and to the decoder it is as good as absent. No body has fields further inside.
func checkFields(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if start, _ := d.Token(); start != json.Delim('{') {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		key, _ := d.Token()
		name, _ := key.(string)
		var value json.RawMessage
		switch {
		case seen[name] || d.Decode(&value) != nil:
			return errors.New(twice + name)
		case string(value) == "null":
			return errors.New(nothing + name)
		}
		seen[name] = true
	}
	return nil
}

// describe says what the OpenAPI document says beside its routes.
func describe(o *huma.OpenAPI, origin string) {
	o.Info.Description = "Members, service accounts, runs and the audit log of a workspace. " +
		"Scripts send a service account's token; people are signed in by a session cookie and choose a workspace with X-Svc-Tenant. " +
		"A query parameter that is empty or sent twice is refused with 422 `validation_failed`, as one that is not known. " +
		"So is text with a service token in it, wherever it would be kept."
	o.Info.Contact = &huma.Contact{Name: "The operators of this service", URL: origin}
	o.Info.License = &huma.License{Name: "Proprietary", URL: origin + "/api/docs"}
	o.Servers = []*huma.Server{{URL: origin}}
	cookie := "better-auth.session_token"
	if strings.HasPrefix(origin, "https:") {
		cookie = "__Secure-" + cookie
	}
	o.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"serviceToken": {Type: "http", Scheme: "bearer", Description: "The token of a service account: tok_svc_…"},
		"session":      {Type: "apiKey", In: "cookie", Name: cookie, Description: "A person's session. `POST /api/auth/sign-in/email` with `{\"email\", \"password\"}`, where that is switched on, sets the cookie, and so does the way by a code host that `POST /api/auth/sign-in/social` begins. The routes under `/api/auth` are those of Better Auth 1.7, organizations among them (`list-user-invitations`, `accept-invitation`); its client knows them."},
	}
	o.Tags = []*huma.Tag{
		{Name: "Runs", Description: "Issues on their way to a merged pull request."},
		{Name: "Backlog", Description: "What there is to do."},
		{Name: "Inbox", Description: "What runs ask people."},
		{Name: "Insights", Description: "How well the loop does."},
		{Name: "Dashboard", Description: "What goes on, for cheap polling."},
		{Name: "Live updates", Description: "What changes, while it does."},
		{Name: "Workspace", Description: "What the workspace is called."},
		{Name: "Members & roles", Description: "Who is in the workspace, and what they may do."},
		{Name: "Service accounts", Description: "Identities for scripts, each with one token."},
		{Name: "Audit", Description: "Who did what."},
	}
}

// serveDescription serves the OpenAPI document, and a page to read it.
func serveDescription(mux *httprouter.Router, api huma.API) {
	openAnswers(api.OpenAPI())
	hideRules(api.OpenAPI())
	asJSON, err := json.Marshal(api.OpenAPI())
	if err != nil {
		panic(err) // the description is made of our own types
	}
	asYAML, err := api.OpenAPI().YAML()
	if err != nil {
		panic(err)
	}
	get(mux, "/api/openapi.json", content("application/json", asJSON))
	get(mux, "/api/openapi.yaml", content("application/yaml", asYAML))
	serveDocs(mux)
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
