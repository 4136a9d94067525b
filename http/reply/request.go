package reply

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"svc/fault"
	"svc/input"
)

// TooLarge returns the fault for a body of more than limit bytes.
func TooLarge(limit int64) *fault.Fault {
	size := fmt.Sprintf("%d bytes", limit)
	switch {
	case limit%(1<<20) == 0:
		size = fmt.Sprintf("%d MiB", limit>>20)
	case limit%(1<<10) == 0:
		size = fmt.Sprintf("%d KiB", limit>>10)
	}
	return fault.New(fault.TooLarge, "body_too_large", "The body of a request may have %s at most.", size)
}

const idempotencyKey = "Idempotency-Key"

// CheckRequest returns a fault if the stated length of the body exceeds maxBody, if the path, query
// or Idempotency-Key is not UTF-8 text without NUL, or if the key, which is stored, has a token in it.
func CheckRequest(r *http.Request, maxBody int64) error {
	if r.ContentLength > maxBody {
		return TooLarge(maxBody)
	}
	if !readable(r.URL.Path) {
		return fault.Field("path", "must be UTF-8 text without NUL")
	}
	if key := r.Header.Get(idempotencyKey); key != "" && (!readable(key) || input.HasToken(key)) { // the key is stored
		return fault.Field(idempotencyKey, "must be UTF-8 text and no token")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.Field("query", "must be percent-encoded")
	}
	for name, values := range query {
		if !readable(name) {
			return fault.Field("query", "must be UTF-8 text without NUL")
		}
		for _, v := range values {
			if !readable(v) {
				return fault.Field(input.MaskTokens(name), "must be UTF-8 text without NUL")
			}
		}
	}
	return nil
}

// Storable reports whether PostgreSQL can store the strings of JSON text unchanged: UTF-8, without
// NUL, and without unpaired surrogates, which a decoder would silently replace.
func Storable(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	low := false // whether a low surrogate must follow
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 == len(text) {
			return !low
		}
		if low && i > 0 {
			return false
		}
		escape := text[i+1]
		text = text[i+2:]
		unit := uint64(1)
		if escape == 'u' && len(text) >= 4 {
			unit, _ = strconv.ParseUint(string(text[:4]), 16, 16) // 0 on error, which is refused below
			text = text[4:]
		}
		second := unit >= 0xDC00 && unit <= 0xDFFF
		if unit == 0 || second != low {
			return false
		}
		low = unit >= 0xD800 && unit < 0xDC00
	}
}

// Limits of the JSON of one request. The largest is a job of 50 steps with 100 variables each.
const (
	maxValues  = 8192 // strings, numbers, lists and objects in total
	maxMembers = 200  // items of a list, or fields of an object
)

// FewValues reports whether JSON has few enough values to be decoded. Decoding takes many times the
// memory of the text, and each invalid value adds an error, so this is checked first, without decoding.
func FewValues(text []byte) bool {
	members := []int{1} // of each open list and object, after one for the whole text
	values, quoted := 1, false
	for i := 0; i < len(text); i++ {
		innermost := len(members) - 1
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			members = append(members, 1)
			values++
		case (c == ']' || c == '}') && innermost > 0:
			members = members[:innermost]
		case c == ',':
			members[innermost]++
			values++
			if members[innermost] > maxMembers {
				return false
			}
		}
		if values > maxValues {
			return false
		}
	}
	return true
}

func readable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
