package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"svc/http/middleware"
	"svc/http/reply"
)

var errBody = errors.New("must be JSON that fits the description")

// errValues refuses JSON before it is decoded and validated, which would take too much memory.
var errValues = errors.New("has too many values, or too many in one list or object")

// unmarshal decodes JSON whose strings can be stored unchanged. It returns its own error, since the
// decoder's would quote the input, and errors are shown to the caller.
func unmarshal(data []byte, v any) error {
	if !reply.FewValues(data) {
		return errValues
	}
	if !reply.Storable(data) || json.Unmarshal(data, v) != nil {
		return errBody
	}
	return checkFields(data)
}

// encoded is an encoded answer.
type encoded []byte

// encode encodes an answer before its header is written, to set Content-Length. Sending the answer
// in one piece takes half the time of chunked encoding.
func (a *API) encode(ctx huma.Context, status string, answer any) (any, error) {
	if status == "204" || status == "304" {
		return answer, nil
	}
	var b bytes.Buffer
	if err := huma.DefaultJSONFormat.Marshal(&b, answer); err != nil {
		return nil, err
	}
	text := compress(ctx, b.Bytes())
	ctx.SetHeader("Content-Length", strconv.Itoa(len(text)))
	if a.encoded != nil {
		a.encoded(ctx.Context())
	}
	return encoded(text), nil
}

// compress returns text in the coding that the request asks for, with a tag of its own. Only answers of
// GET are compressed: those of other methods may show a token.
func compress(ctx huma.Context, text []byte) []byte {
	r, w := humago.Unwrap(ctx)
	if r.Method != http.MethodGet {
		return text
	}
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if !middleware.WantsGzip(r.Header, len(text)) {
		return text
	}
	h.Set("Content-Encoding", "gzip")
	if tag, ok := strings.CutSuffix(h.Get("ETag"), `"`); ok {
		h.Set("ETag", tag+GzipTag+`"`)
	}
	return middleware.GzipPrivate(text)
}

// GzipTag ends the ETag of a compressed answer.
const GzipTag = "-gzip"

// writeEncoded writes an answer whose header has been sent. Writing fails only if the caller has gone or
// does not read; huma would then write a second header, or panic.
func writeEncoded(w io.Writer, answer any) error {
	_, _ = w.Write(answer.(encoded))
	return nil
}

// checkFields refuses fields that a valid body has twice, since decoders disagree on which one
// counts, and fields that are null, since the decoder takes null for absent.
func checkFields(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if start, _ := d.Token(); start != json.Delim('{') {
		return nil
	}
	return checkObject(d, "")
}

// checkObject checks an object after its opening brace. path is the prefix of its fields' names,
// such as "steps.0.", or empty.
func checkObject(d *json.Decoder, path string) error {
	seen := map[string]bool{}
	for d.More() {
		key, _ := d.Token()
		name, _ := key.(string)
		if seen[name] {
			return errors.New(duplicateMark + path + name)
		}
		seen[name] = true
		value, err := d.Token()
		switch {
		case err != nil:
			return errBody
		case value == nil:
			return errors.New(nullMark + path + name)
		}
		if err := checkValue(d, value, path+name+"."); err != nil {
			return err
		}
	}
	_, _ = d.Token()
	return nil
}

// checkValue checks the fields in a value that is an object or a list.
func checkValue(d *json.Decoder, value json.Token, path string) error {
	switch value {
	case json.Delim('{'):
		return checkObject(d, path)
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			item, err := d.Token()
			if err != nil {
				return errBody
			}
			if err := checkValue(d, item, path+strconv.Itoa(i)+"."); err != nil {
				return err
			}
		}
		_, _ = d.Token()
	}
	return nil
}
