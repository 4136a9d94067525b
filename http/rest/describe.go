package rest

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// describe sets the parts of the OpenAPI document other than its operations.
func (s *Server) describe(o *huma.OpenAPI) {
	o.Info.Description = "Members, service accounts, runs and the audit log of a workspace. " +
		"Scripts authenticate with a service account's token. People authenticate with a session cookie and select a workspace with " +
		"X-Svc-Tenant. An unknown, empty or repeated query parameter fails with 422 `validation_failed`, as does text that would be " +
		"stored and contains a service token. A person can make 10,000 changes a day, unless operators set another limit, not counting " +
		"those with a limit of their own and those that remove or end something: 429 `rate_limited` with `Retry-After`. Later versions may add " +
		"fields to answers, values to the enums of answers, and error codes: a client has to accept those that it does not know."
	o.Info.Contact = &huma.Contact{Name: "The operators of this service", URL: s.Origin}
	o.Info.License = &huma.License{ // of the file LICENSE
		Name: "Workspace Service Evaluation License", Identifier: "LicenseRef-Workspace-Service-Evaluation",
	}
	o.Servers = []*huma.Server{{URL: "/"}} // relative: the service does not know every address that it is reached at
	cookie := "better-auth.session_token"
	if strings.HasPrefix(s.Origin, "https:") {
		cookie = "__Secure-" + cookie
	}
	o.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"serviceToken": {Type: "http", Scheme: "bearer", Description: "The token of a service account: tok_svc_…"},
		"session": {Type: "apiKey", In: "cookie", Name: cookie, Description: "A person's session. " +
			"The cookie is set by `POST /api/auth/sign-in/email` with `{\"email\", \"password\"}`, if password sign-in is enabled, " +
			"or by signing in at a code host, which starts with `POST /api/auth/sign-in/social`. " +
			"`GET /api/auth/providers` lists the code hosts. " +
			"The routes under `/api/auth` are those of Better Auth 1.7 with its organization plugin " +
			"(for example `list-user-invitations`, `accept-invitation`); use its client."},
		"runnerCertificate": {Type: "mutualTLS", Description: "The client certificate of a runner, forwarded by the farm's gateway."},
	}
	for _, section := range s.sections() {
		if section.About != "" {
			o.Tags = append(o.Tags, &huma.Tag{Name: section.Tag, Description: section.About})
		}
	}
}
