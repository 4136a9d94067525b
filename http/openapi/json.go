package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

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
// be, and to the decoder it is as good as absent.
func checkFields(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if start, _ := d.Token(); start != json.Delim('{') {
		return nil
	}
	return checkObject(d, "")
}

// checkObject checks what follows the beginning of an object; place is that of the object,
// such as "steps.0.", or empty.
func checkObject(d *json.Decoder, place string) error {
	seen := map[string]bool{}
	for d.More() {
		key, _ := d.Token()
		name, _ := key.(string)
		if seen[name] {
			return errors.New(twice + place + name)
		}
		seen[name] = true
		value, err := d.Token()
		switch {
		case err != nil:
			return errBody
		case value == nil:
			return errors.New(nothing + place + name)
		}
		if err := checkInside(d, value, place+name+"."); err != nil {
			return err
		}
	}
	_, _ = d.Token()
	return nil
}

// checkInside checks what is in a value that is an object or a list.
func checkInside(d *json.Decoder, value json.Token, place string) error {
	switch value {
	case json.Delim('{'):
		return checkObject(d, place)
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			item, err := d.Token()
			if err != nil {
				return errBody
			}
			if err := checkInside(d, item, place+strconv.Itoa(i)+"."); err != nil {
				return err
			}
		}
		_, _ = d.Token()
	}
	return nil
}
