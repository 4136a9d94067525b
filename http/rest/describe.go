package rest

import (
	"io"
	"log/slog"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// describe says what the OpenAPI document says beside its routes.
func (s *Server) describe(o *huma.OpenAPI) {
	o.Info.Description = "Members, service accounts, runs and the audit log of a workspace. " +
		"Scripts send a service account's token; people are signed in by a session cookie and choose a workspace with X-Svc-Tenant. " +
		"A query parameter that is empty or sent twice is refused with 422 `validation_failed`, as one that is not known. " +
		"So is text with a service token in it, wherever it would be kept."
	o.Info.Contact = &huma.Contact{Name: "The operators of this service", URL: s.origin}
	o.Info.License = &huma.License{Name: "Proprietary", URL: s.origin + docsPath}
	o.Servers = []*huma.Server{{URL: s.origin}}
	cookie := "better-auth.session_token"
	if strings.HasPrefix(s.origin, "https:") {
		cookie = "__Secure-" + cookie
	}
	o.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"serviceToken": {Type: "http", Scheme: "bearer", Description: "The token of a service account: tok_svc_…"},
		"session": {Type: "apiKey", In: "cookie", Name: cookie, Description: "A person's session. " +
			"`POST /api/auth/sign-in/email` with `{\"email\", \"password\"}`, where that is switched on, sets the cookie, " +
			"and so does the way by a code host that `POST /api/auth/sign-in/social` begins; " +
			"`GET /api/auth/providers` names those there are. " +
			"The routes under `/api/auth` are those of Better Auth 1.7, organizations among them " +
			"(`list-user-invitations`, `accept-invitation`); its client knows them."},
		"runnerCertificate": {Type: "mutualTLS", Description: "The client certificate of a runner, by way of the farm's gateway."},
	}
	for _, section := range s.sections() {
		if section.about != "" {
			o.Tags = append(o.Tags, &huma.Tag{Name: section.tag, Description: section.about})
		}
	}
}

// Describe writes the OpenAPI document of what people and scripts use, as JSON: what
// clients are generated from, without a service that runs. Routes of build machines are
// left out.
func Describe(w io.Writer) error {
	s := New(Config{Origin: "http://localhost:4000", Log: slog.New(slog.DiscardHandler)})
	_, err := w.Write(append(s.api().Document().JSON(), '\n'))
	return err
}
