package events_test

import (
	"encoding"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// isOptional reports whether the field may be absent in a stored form.
func isOptional(f reflect.StructField) bool {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.Contains(options, "omit")
}

// isText reports whether a type is encoded as a JSON string.
func isText(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// optional returns the names of the optional fields of t, including nested ones.
func optional(t reflect.Type) (names []string) {
	switch {
	case isText(t):
	case t.Kind() == reflect.Slice:
		return optional(t.Elem())
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			if isOptional(f) {
				names = append(names, f.Name)
			}
			names = append(names, optional(f.Type)...)
		}
	}
	return names
}

// requireOptional requires that the optional fields within v are all set, or that none is.
func requireOptional(t *testing.T, v reflect.Value, set bool) {
	switch {
	case isText(v.Type()):
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			requireOptional(t, v.Index(i), set)
		}
	case v.Kind() == reflect.Struct:
		for f, value := range v.Fields() {
			if isOptional(f) {
				require.Equal(t, set, !value.IsZero(), f.Name)
			}
			requireOptional(t, value, set)
		}
	}
}

// fill sets every field within v to a made-up value; optional fields only if asked.
func fill(v reflect.Value, minimal bool) {
	at := time.Date(2026, 11, 20, 23, 56, 25, 123e6, time.UTC)
	switch v.Interface().(type) {
	case events.ID:
		v.Set(reflect.ValueOf(events.NewID(at)))
		return
	case time.Time:
		v.Set(reflect.ValueOf(at))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for f, value := range v.Fields() {
			if value.CanSet() && (!minimal || !isOptional(f)) {
				fill(value, minimal)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), minimal)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), minimal)
		}
	case reflect.String:
		v.SetString(madeUp)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	}
}

// Envelopes are stored beside events and have to be readable for as long.
func TestEnvelopeForms(t *testing.T) {
	id, err := events.ParseID("019aa3b2-a4a3-3031-3233-343536373839") // made before ids were version 7 UUIDs
	require.NoError(t, err)
	full := events.Envelope{
		Actor:  events.Actor{Type: events.ByService, ID: id, Name: "service:ci-bot"},
		Origin: events.FromAPI, IP: "2001:db8::7", UserAgent: "curl/8.5.0", RequestID: "req-7", TokenTail: "x9Qa",
	}
	system := events.Envelope{Actor: events.Actor{Type: events.BySystem, Name: "loop"}, Origin: events.FromSystem}
	requireOptional(t, reflect.ValueOf(full), true)
	requireOptional(t, reflect.ValueOf(system), false)
	for stored, want := range map[string]events.Envelope{
		`{"actor":{"type":"service","id":"019aa3b2-a4a3-3031-3233-343536373839","name":"service:ci-bot"},"origin":"api","ip":"2001:db8::7",` +
			`"userAgent":"curl/8.5.0","requestId":"req-7","tokenTail":"x9Qa"}`: full,
		`{"actor":{"type":"system","name":"loop"},"origin":"system"}`: system,
	} {
		requireForm(t, stored, want)
	}
	e, err := events.DecodeEnvelope([]byte(`{"actor":{"type":"system","name":"loop"},"origin":"system",` +
		`"causation":"019aa3b2-a4a3-3031-3233-343536373839"}`))
	require.NoError(t, err)
	require.Equal(t, system, e, "earlier builds could name the event that caused this one")
}
