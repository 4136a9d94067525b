package oauth

// A Refusal is an error of the OAuth flow, in GitHub's words.
type Refusal struct {
	code, description string
	manual            string // URL in GitHub's manual
}

func (r *Refusal) Error() string { return r.code + ": " + r.description }

const (
	authorizeManual = "https://docs.github.com/apps/managing-oauth-apps/troubleshooting-authorization-request-errors/#"
	tokenManual     = "https://docs.github.com/apps/managing-oauth-apps/troubleshooting-oauth-app-access-token-request-errors/#"
)

// Errors of an authorization request, which the browser takes to the application.
var (
	ErrDenied      = &Refusal{"access_denied", "The user has denied your application access.", authorizeManual + "access-denied"}
	errRedirectURI = &Refusal{"redirect_uri_mismatch",
		"The redirect_uri MUST match the registered callback URL for this application.", authorizeManual + "redirect-uri-mismatch"}
	errPKCE = &Refusal{"invalid_request", "The code_challenge MUST have 43 characters and the code_challenge_method MUST be S256.", ""}
	errType = &Refusal{"unsupported_response_type", "The response_type MUST be code.", ""}
)

// Errors of a token request.
var (
	errClient = &Refusal{"incorrect_client_credentials", "The client_id and/or client_secret passed are incorrect.",
		tokenManual + "incorrect-client-credentials"}
	errTokenRedirectURI = &Refusal{"redirect_uri_mismatch",
		"The redirect_uri MUST match the registered callback URL for this application.", authorizeManual + "redirect-uri-mismatch2"}
	errCode  = &Refusal{"bad_verification_code", "The code passed is incorrect or expired.", tokenManual + "bad-verification-code"}
	errGrant = &Refusal{"unsupported_grant_type", "The grant_type MUST be authorization_code.", ""}
)

// Fields returns the refusal as the application gets it.
func (r *Refusal) Fields() map[string]string {
	return map[string]string{"error": r.code, "error_description": r.description, "error_uri": r.manual}
}
