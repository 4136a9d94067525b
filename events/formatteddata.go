package events

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// timeLayout is the layout of times in answers.
const timeLayout = "2006-01-02T15:04:05.000Z"

// FormattedData returns the event as it is stored, except that its times are in UTC with
// exactly three digits of a second.
func (r *Record) FormattedData() json.RawMessage {
	fields := timesOf(reflect.TypeOf(r.Event))
	if fields == nil {
		return r.Data
	}
	return fields.format(gjson.ParseBytes(r.Data))
}

// times has the names of the fields that are or contain times, in an object or in each
// object of an array. The value of a field that is a time itself is an empty map.
type times map[string]times

func (t times) format(v gjson.Result) json.RawMessage {
	switch {
	case len(t) == 0 && v.Type == gjson.String:
		at, err := time.Parse(time.RFC3339Nano, v.Str)
		if err != nil {
			break
		}
		return strconv.AppendQuote(nil, at.UTC().Format(timeLayout))
	case v.IsObject():
		return t.formatEach(v, '{', '}', func(name gjson.Result) times { return t[name.Str] })
	case v.IsArray():
		return t.formatEach(v, '[', ']', func(gjson.Result) times { return t })
	}
	return json.RawMessage(v.Raw)
}

// formatEach formats the values of an object or an array.
func (t times) formatEach(v gjson.Result, begin, end byte, of func(name gjson.Result) times) json.RawMessage {
	out := []byte{begin}
	v.ForEach(func(name, value gjson.Result) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		if name.Exists() {
			out = append(append(out, name.Raw...), ':')
		}
		if in := of(name); in != nil {
			out = append(out, in.format(value)...)
		} else {
			out = append(out, value.Raw...)
		}
		return true
	})
	return append(out, end)
}

var typeTimes sync.Map // from reflect.Type to times

// timesOf returns where the JSON of a type has times, nil if nowhere. A string is a time
// if its field has the tag `format:"date-time"`.
func timesOf(t reflect.Type) times {
	if known, ok := typeTimes.Load(t); ok {
		return known.(times)
	}
	found := findTimes(t)
	typeTimes.Store(t, found)
	return found
}

func findTimes(t reflect.Type) times {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() {
		return times{}
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var found times
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || !f.IsExported() || name == "" || name == "-" {
			continue
		}
		in := findTimes(f.Type)
		if f.Tag.Get("format") == "date-time" {
			in = times{}
		}
		if in == nil {
			continue
		}
		if found == nil {
			found = times{}
		}
		found[name] = in
	}
	return found
}
