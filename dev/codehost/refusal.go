package codehost

import (
	"net/http"
	"strconv"

	"svc/http/reply"
)

// A refusal is an error of the OAuth flow, in GitHub's words.
type refusal struct {
	code, description string
	manual            string // URL in GitHub's manual
}

func (r *refusal) Error() string { return r.code + ": " + r.description }

const (
	authorizeManual = "https://docs.github.com/apps/managing-oauth-apps/troubleshooting-authorization-request-errors/#"
	tokenManual     = "https://docs.github.com/apps/managing-oauth-apps/troubleshooting-oauth-app-access-token-request-errors/#"
)

// Errors of an authorization request, which the browser takes to the application.
var (
	errDenied      = &refusal{"access_denied", "The user has denied your application access.", authorizeManual + "access-denied"}
	errRedirectURI = &refusal{"redirect_uri_mismatch",
		"The redirect_uri MUST match the registered callback URL for this application.", authorizeManual + "redirect-uri-mismatch"}
	errPKCE = &refusal{"invalid_request", "The code_challenge MUST have 43 characters and the code_challenge_method MUST be S256.", ""}
	errType = &refusal{"unsupported_response_type", "The response_type MUST be code.", ""}
)

// Errors of a token request.
var (
	errClient = &refusal{"incorrect_client_credentials", "The client_id and/or client_secret passed are incorrect.",
		tokenManual + "incorrect-client-credentials"}
	errTokenRedirectURI = &refusal{"redirect_uri_mismatch",
		"The redirect_uri MUST match the registered callback URL for this application.", authorizeManual + "redirect-uri-mismatch2"}
	errCode  = &refusal{"bad_verification_code", "The code passed is incorrect or expired.", tokenManual + "bad-verification-code"}
	errGrant = &refusal{"unsupported_grant_type", "The grant_type MUST be authorization_code.", ""}
)

func (r *refusal) fields() map[string]string {
	return map[string]string{"error": r.code, "error_description": r.description, "error_uri": r.manual}
}

// refuse answers an error like GitHub's API.
func refuse(w http.ResponseWriter, status int, text string) {
	reply.JSON(w, status, map[string]string{
		"message": text, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status),
	})
}
