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

// A refusal is the body of every error, as huma writes it.
type refusal struct {
	reply.Body
	status int
}

func (r *refusal) Error() string { return r.Code + ": " + r.Message }

// GetStatus returns the HTTP status.
func (r *refusal) GetStatus() int { return r.status }

func refuse(f *fault.Fault) *refusal { return &refusal{reply.BodyOf(f), f.Kind.Status()} }

// refusal turns an error of a handler into its answer.
func (a *API) refusal(ctx context.Context, err error) error {
	f := reply.Fault(ctx, a.log, err)
	return huma.ErrorWithHeaders(refuse(f), reply.Headers(f))
}

// ErrUnsupportedMedia refuses what is no JSON as it is.
var ErrUnsupportedMedia = fault.New(fault.UnsupportedMedia, "unsupported_media_type",
	"Send the body as application/json, and not compressed.")

// missing stands in huma's text of a property that is not there. The name of
// the property follows, because huma reports it of the object around it.
const missing = "\x00missing "

// twice stands before the name of a field that a body has twice.
const twice = "\x00twice "

// nothing stands before the name of a field that is null.
const nothing = "\x00nothing "

func init() { // huma keeps these for the whole process
	huma.NewError = func(status int, text string, errs ...error) huma.StatusError {
		return refuse(faultOf(status, text, errs))
	}
	huma.NewErrorWithContext = func(_ huma.Context, status int, text string, errs ...error) huma.StatusError {
		return refuse(faultOf(status, text, errs))
	}
	huma.ValidateStrictCasing = true // Name is not name
	validation.MsgExpectedRequiredProperty = missing + "%s"
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
	validation.MsgExpectedRFC4122UUID = "must be an id%.0s" // huma adds an error that would echo the value
	validation.MsgExpectedRFC5322Email = "must be an e-mail address%.0s"
	validation.MsgExpectedRFC3339DateTime = "must be a time such as 2026-11-20T23:56:25.123Z"
}

// faultOf sorts what huma found wrong with a request. None of the values that
// were sent, and no error of ours, goes into the answer.
func faultOf(status int, text string, errs []error) *fault.Fault {
	large, tooLarge := errors.AsType[*http.MaxBytesError](errors.Join(errs...))
	switch {
	case tooLarge:
		return reply.TooLarge(large.Limit)
	case text == "cannot read request body": // it ends early, or its chunks are none: to huma a 500
		return fault.Field("body", "could not be read")
	case status == http.StatusUnsupportedMediaType:
		return ErrUnsupportedMedia
	case status == http.StatusNotAcceptable, status >= http.StatusInternalServerError:
		return fault.ErrInternal
	}
	wrong := map[string][]string{}
	for _, err := range errs[:min(len(errs), problems)] {
		if d, ok := err.(huma.ErrorDetailer); ok {
			field, message := fieldOf(d.ErrorDetail())
			field = input.Redact(field) // the caller may have named it
			wrong[field] = append(wrong[field], message)
		}
	}
	if len(wrong) == 0 {
		wrong["body"] = []string{bodyProblem(text)}
	}
	return fault.Fields(wrong)
}

// problems is how many of a request's are told: whoever sends thousands has
// made one mistake.
const problems = 20

// fieldOf names the field of the request that a detail is about: "status" for
// query.status, "scopes" for body.scopes[0], "steps.0.run" for body.steps[0].run, "body"
// for the whole of it.
func fieldOf(d *huma.ErrorDetail) (field, message string) {
	part, rest, _ := strings.Cut(d.Location, ".")
	dotted := strings.NewReplacer("[", ".", "]", "").Replace(rest)
	if name, ok := strings.CutPrefix(d.Message, missing); ok {
		if dotted != "" {
			name = dotted + "." + name
		}
		return name, "is missing"
	}
	field = dotted
	if strings.HasSuffix(rest, "]") { // of a list of plain values
		field, _, _ = strings.Cut(rest, "[")
	}
	if name, ok := strings.CutPrefix(d.Message, twice); ok {
		return name, "must not be there twice"
	}
	if name, ok := strings.CutPrefix(d.Message, nothing); ok {
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
	what, _, _ := strings.Cut(d.Message, " for format ") // which would be Go's
	if text, ok := unparsable[what]; ok {
		return field, text
	}
	return field, d.Message
}

// unparsable translates huma's words on parameters that cannot be parsed.
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
