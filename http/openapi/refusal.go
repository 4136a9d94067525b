package openapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"svc/fault"
	"svc/http/reply"
	"svc/input"
)

// An errorBody is the body of every error, as a huma error.
type errorBody struct {
	reply.Body
	status int
}

func (r *errorBody) Error() string { return r.Code + ": " + r.Message }

// GetStatus implements [huma.StatusError].
func (r *errorBody) GetStatus() int { return r.status }

func newErrorBody(f *fault.Fault) *errorBody { return &errorBody{reply.BodyOf(f), f.Kind.Status()} }

// errorAnswer turns an error of a handler into its answer.
func (a *API) errorAnswer(ctx context.Context, err error) error {
	f := reply.Fault(ctx, a.log, err)
	return huma.ErrorWithHeaders(newErrorBody(f), reply.Headers(f))
}

// ErrUnsupportedMedia refuses a body that is not uncompressed JSON.
var ErrUnsupportedMedia = fault.New(fault.UnsupportedMedia, "unsupported_media_type",
	"Send the body as application/json, and not compressed.")

// missingMark replaces huma's text about a missing property. The property's name follows it, since
// huma reports the location of the surrounding object.
const missingMark = "\x00missing "

// duplicateMark precedes the name of a field that a body has twice.
const duplicateMark = "\x00twice "

// nullMark precedes the name of a field that is null.
const nullMark = "\x00nothing "

func init() { // these are global variables of huma
	huma.NewError = func(status int, text string, errs ...error) huma.StatusError {
		return newErrorBody(faultOf(status, text, errs))
	}
	huma.NewErrorWithContext = func(_ huma.Context, status int, text string, errs ...error) huma.StatusError {
		return newErrorBody(faultOf(status, text, errs))
	}
	huma.ValidateStrictCasing = true // field names are case-sensitive
	validation.MsgExpectedRequiredProperty = missingMark + "%s"
	validation.MsgUnexpectedProperty = "is not known here"
	validation.MsgExpectedOneOf = `must be one of "%s"`
	validation.MsgExpectedNumber = "must be a number"
	validation.MsgExpectedInteger = "must be an integer"
	validation.MsgExpectedString = "must be a string"
	validation.MsgExpectedBoolean = "must be true or false"
	validation.MsgExpectedArray = "must be a list"
	validation.MsgExpectedObject = "must be an object"
	validation.MsgExpectedMinimumNumber = "must be %.15g or more"
	validation.MsgExpectedMaximumNumber = "must be %.15g or less"
	validation.MsgExpectedMinLength = "must have %d or more characters"
	validation.MsgExpectedMaxLength = "must have %d characters or fewer"
	validation.MsgExpectedMinItems = "must have %d or more items"
	validation.MsgExpectedMaxItems = "must have %d items or fewer"
	validation.MsgExpectedMinProperties = "must have %d or more fields"
	validation.MsgExpectedBePattern = "must %s"
	validation.MsgExpectedRFC4122UUID = "must be an id%.0s" // drops huma's error, which would echo the value
	validation.MsgExpectedRFC5322Email = "must be an e-mail address%.0s"
	validation.MsgExpectedRFC3339DateTime = "must be a time such as 2026-11-20T23:56:25.123Z"
}

// faultOf converts huma's errors about a request. The answer contains neither sent values nor
// internal errors.
func faultOf(status int, text string, errs []error) *fault.Fault {
	large, tooLarge := errors.AsType[*http.MaxBytesError](errors.Join(errs...))
	switch {
	case tooLarge:
		return reply.TooLarge(large.Limit)
	case text == "cannot read request body", // a truncated or malformed body, which huma takes for a 500
		status == http.StatusRequestTimeout:
		return fault.Field("body", "could not be read")
	case status == http.StatusUnsupportedMediaType:
		return ErrUnsupportedMedia
	case status == http.StatusNotAcceptable, status >= http.StatusInternalServerError:
		return fault.ErrInternal
	}
	wrong := map[string][]string{}
	for _, err := range errs[:min(len(errs), maxProblems)] {
		if d, ok := err.(huma.ErrorDetailer); ok {
			field, message := fieldOf(d.ErrorDetail())
			field = input.MaskTokens(field) // the caller may have chosen the name
			wrong[field] = append(wrong[field], message)
		}
	}
	if len(wrong) == 0 {
		wrong["body"] = []string{bodyProblem(text)}
	}
	return fault.Fields(wrong)
}

// maxProblems limits how many problems of a request are reported: more usually have one cause.
const maxProblems = 20

// fieldOf returns the name of the field that a detail is about: "status" for query.status, "scopes"
// for body.scopes[0], "steps.0.run" for body.steps[0].run, "body" for the whole body.
func fieldOf(d *huma.ErrorDetail) (field, message string) {
	part, rest, _ := strings.Cut(d.Location, ".")
	dotted := strings.NewReplacer("[", ".", "]", "").Replace(rest)
	if name, ok := strings.CutPrefix(d.Message, missingMark); ok {
		if dotted != "" {
			name = dotted + "." + name
		}
		return name, "is missing"
	}
	field = dotted
	if strings.HasSuffix(rest, "]") { // an element of a list of plain values
		field, _, _ = strings.Cut(rest, "[")
	}
	if name, ok := strings.CutPrefix(d.Message, duplicateMark); ok {
		return name, "must not be there twice"
	}
	if name, ok := strings.CutPrefix(d.Message, nullMark); ok {
		return name, "must not be null"
	}
	if field == "" {
		field = part
	}
	if strings.HasPrefix(d.Message, "required ") {
		return field, "is missing"
	}
	if part == "body" && d.Location == "body" && strings.HasPrefix(d.Message, "invalid") {
		return field, bodyProblem(d.Message)
	}
	what, _, _ := strings.Cut(d.Message, " for format ") // drop the name of Go's time layout
	if text, ok := unparsable[what]; ok {
		return field, text
	}
	return field, d.Message
}

// unparsable translates huma's messages about parameters that cannot be parsed.
var unparsable = map[string]string{
	"invalid integer":   "must be an integer",
	"invalid number":    "must be a number",
	"invalid float":     "must be a number",
	"invalid boolean":   "must be true or false",
	"invalid date/time": "must be a time such as 2026-11-20T23:56:25.123Z",
}

func bodyProblem(text string) string {
	if strings.Contains(text, "required") {
		return "is missing"
	}
	return "must be JSON that fits the description"
}
