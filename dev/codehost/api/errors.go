// Package api has the form of the answers of GitHub's interface: errors, pages, headers.
package api

import (
	"net/http"
	"strconv"

	"svc/http/reply"
)

// An Object is a JSON object of an answer.
type Object map[string]any

// An Error is an error that is answered.
type Error struct {
	Status  int
	Message string
	errors  []Object
}

func (e *Error) Error() string { return e.Message }

// Errors of any request.
var (
	ErrNotFound    = &Error{Status: http.StatusNotFound, Message: "Not Found"}
	ErrNoTokenHere = &Error{Status: http.StatusUnauthorized, Message: "Requires authentication"}
	ErrForbidden   = &Error{Status: http.StatusForbidden, Message: "Resource not accessible by personal access token"}
	ErrBody        = &Error{Status: http.StatusBadRequest, Message: "Problems parsing JSON"}
)

// Invalid is the refusal of a field.
func Invalid(resource, field, code, message string) *Error {
	return InvalidWith(Object{"resource": resource, "field": field, "code": code}, message)
}

// InvalidWith is Invalid with any object, and with a message if it is not empty.
func InvalidWith(e Object, message string) *Error {
	if message != "" {
		e["message"] = message
	}
	return &Error{Status: http.StatusUnprocessableEntity, Message: "Validation Failed", errors: []Object{e}}
}

// Body returns what is answered.
func (e *Error) Body() Object {
	out := Object{"message": e.Message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(e.Status)}
	if e.errors != nil {
		out["errors"] = e.errors
	}
	return out
}

// Sentence is what a page says of a refusal.
func (e *Error) Sentence() string {
	for _, one := range e.errors {
		if text, ok := one["message"].(string); ok {
			return text
		}
		if field, ok := one["field"].(string); ok {
			return "Check the " + field + "."
		}
	}
	return e.Message
}

// Refuse answers an error like GitHub's API.
func Refuse(w http.ResponseWriter, status int, text string) {
	reply.JSON(w, status, map[string]string{
		"message": text, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status),
	})
}
