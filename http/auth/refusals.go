package auth

import (
	"fmt"

	"svc/aggregates"
	"svc/fault"
	"svc/input"
)

// Refusals that any route may answer with.
var (
	errNotFound     = fault.New(fault.NotFound, "NOT_FOUND", "There is nothing here.")
	errUnauthorized = fault.New(fault.Unauthenticated, "UNAUTHORIZED", "Unauthorized")
	errBadJSON      = fault.New(fault.Malformed, "BAD_REQUEST", "Invalid JSON in request body")

	// errCreateUnauthorized and the next two refuse a request without a session on the routes
	// where Better Auth has its own error.
	errCreateUnauthorized = errUnauthorized
	errNotAuthenticated   = fault.New(fault.Unauthenticated, "UNAUTHORIZED", "Not authenticated")
	errMissingSession     = fault.New(fault.Malformed, "UNAUTHORIZED", "Missing session headers, or email query parameter.")
)

func errMediaType(media string) error {
	return fault.New(fault.UnsupportedMedia, "UNSUPPORTED_MEDIA_TYPE",
		"Content-Type %q is not allowed. Allowed types: application/json", input.MaskTokens(media))
}

// errValidation refuses a field, or the whole body if field is "".
func errValidation(field, text string) error {
	if field == "" {
		return fault.New(fault.Malformed, "VALIDATION_ERROR", "[body] %s", text).With("body", []string{text})
	}
	return fault.New(fault.Malformed, "VALIDATION_ERROR", "[body.%s] %s", field, text).With(field, []string{text})
}

func errQuery(name, text string) error {
	return fault.New(fault.Malformed, "VALIDATION_ERROR", "[query.%s] %s", name, text).With(name, []string{text})
}

// Refusals of sign-in.
var (
	errEmail            = fault.New(fault.Malformed, "INVALID_EMAIL", "Invalid email")
	errWrongPassword    = fault.New(fault.Unauthenticated, "INVALID_EMAIL_OR_PASSWORD", "Invalid email or password")
	errPasswordDisabled = fault.New(fault.Malformed, "EMAIL_PASSWORD_DISABLED", "Email and password sign-in is not enabled")
	errSignUpDisabled   = fault.New(fault.Malformed, "EMAIL_PASSWORD_SIGN_UP_DISABLED", "Email and password sign up is not enabled")
	errProvider         = fault.New(fault.NotFound, "PROVIDER_NOT_FOUND", "Provider not found")
	errCallbackURL      = fault.New(fault.Denied, "INVALID_CALLBACK_URL", "Invalid callbackURL")
	errErrorURL         = fault.New(fault.Denied, "INVALID_ERROR_CALLBACK_URL", "Invalid errorCallbackURL")
	errNewUserURL       = fault.New(fault.Denied, "INVALID_NEW_USER_CALLBACK_URL", "Invalid newUserCallbackURL")
	errNotFresh         = fault.New(fault.Denied, "SESSION_NOT_FRESH", "Session is not fresh")
	errDefer            = fault.New(fault.MethodNotAllowed, "METHOD_NOT_ALLOWED_DEFER_SESSION_REQUIRED",
		"POST needs deferred sessions, which are not in use.")
)

// Refusals about organizations and their members.
var (
	errNoOrganization = fault.New(fault.Malformed, "ORGANIZATION_NOT_FOUND", "Organization not found")
	errNoActive       = fault.New(fault.Malformed, "NO_ACTIVE_ORGANIZATION", "No active organization")
	errNotMemberOf    = fault.New(fault.Denied, "USER_IS_NOT_A_MEMBER_OF_THE_ORGANIZATION", "User is not a member of the organization")
	errNotMember      = fault.New(fault.Malformed, "USER_IS_NOT_A_MEMBER_OF_THE_ORGANIZATION",
		"User is not a member of the organization")
	errYouAreNoMember = fault.New(fault.Denied, "YOU_ARE_NOT_A_MEMBER_OF_THIS_ORGANIZATION", "You are not a member of this organization")
	errSlugExists     = fault.New(fault.Malformed, "ORGANIZATION_ALREADY_EXISTS", "Organization already exists")
	errSlugTaken      = fault.New(fault.Malformed, "ORGANIZATION_SLUG_ALREADY_TAKEN", "Organization slug already taken")
	errUpdateDenied   = fault.New(fault.Denied, "YOU_ARE_NOT_ALLOWED_TO_UPDATE_THIS_ORGANIZATION",
		"You are not allowed to update this organization")
	errDeletionDisabled  = fault.New(fault.NotFound, "ORGANIZATION_DELETION_DISABLED", "Organization deletion is disabled")
	errNoMember          = fault.New(fault.Malformed, "MEMBER_NOT_FOUND", "Member not found")
	errUpdateMember      = fault.New(fault.Denied, "YOU_ARE_NOT_ALLOWED_TO_UPDATE_THIS_MEMBER", "%s", aggregates.ErrMemberForbidden.Message)
	errUpdateMemberOwner = fault.New(fault.Denied, "YOU_ARE_NOT_ALLOWED_TO_UPDATE_THIS_MEMBER", "%s", aggregates.ErrOwnerRequired.Message)
	errDeleteMember      = fault.New(fault.Unauthenticated, "YOU_ARE_NOT_ALLOWED_TO_DELETE_THIS_MEMBER",
		"You are not allowed to delete this member")
	errDeleteOwner   = fault.New(fault.Denied, "YOU_ARE_NOT_ALLOWED_TO_DELETE_THIS_MEMBER", "%s", aggregates.ErrMemberForbidden.Message)
	errLastOwnerRole = fault.New(fault.Malformed, "YOU_CANNOT_LEAVE_THE_ORGANIZATION_WITHOUT_AN_OWNER", "%s",
		aggregates.ErrLastOwner.Message)
	errLastOwnerLeaves = fault.New(fault.Malformed, "YOU_CANNOT_LEAVE_THE_ORGANIZATION_AS_THE_ONLY_OWNER", "%s",
		aggregates.ErrLastOwner.Message)
)

func errRole(role string) error {
	return fault.New(fault.Malformed, "ROLE_NOT_FOUND", "%s", fmt.Sprintf("ROLE_NOT_FOUND: %.40s", input.MaskTokens(role)))
}

// Refusals about invitations.
var (
	errInviteDenied = fault.New(fault.Denied, "YOU_ARE_NOT_ALLOWED_TO_INVITE_USERS_TO_THIS_ORGANIZATION",
		"You are not allowed to invite users to this organization")
	errInviteOwner = fault.New(fault.Denied, "YOU_ARE_NOT_ALLOWED_TO_INVITE_USER_WITH_THIS_ROLE", "%s",
		aggregates.ErrOwnerRequired.Message)
	errAlreadyMember = fault.New(fault.Malformed, "USER_IS_ALREADY_A_MEMBER_OF_THIS_ORGANIZATION", "%s",
		aggregates.ErrAlreadyMember.Message)
	errAlreadyInvited = fault.New(fault.Malformed, "USER_IS_ALREADY_INVITED_TO_THIS_ORGANIZATION",
		"User is already invited to this organization")
	errNoInvitation = fault.New(fault.Malformed, "INVITATION_NOT_FOUND", "Invitation not found")
	errCancelDenied = fault.New(fault.Denied, "YOU_ARE_NOT_ALLOWED_TO_CANCEL_THIS_INVITATION",
		"You are not allowed to cancel this invitation")
	errNotRecipient = fault.New(fault.Denied, "YOU_ARE_NOT_THE_RECIPIENT_OF_THE_INVITATION",
		"You are not the recipient of the invitation")
	errOrganizationID   = fault.New(fault.Malformed, "ORGANIZATION_ID_REQUIRED", "Organization ID is required")
	errListDenied       = fault.New(fault.Denied, "YOU_ARE_NOT_ALLOWED_TO_LIST_INVITATIONS", "You are not allowed to list invitations")
	errEmailFromBrowser = fault.New(fault.Malformed, "BAD_REQUEST", "User email cannot be passed for client side API calls.")
)
