package events

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/v1"
)

// Decode decodes a stored event into the current form of its kind. It reports an error if
// this build does not know the kind or schema, because a newer build wrote the event, and
// [ErrDamaged] if data does not have the form of the kind.
func Decode(kind string, schema int, data []byte) (Event, error) {
	if err := CheckKnown(kind, schema); err != nil {
		return nil, err
	}
	e, err := kinds[kind][schema-1](data)
	if err != nil {
		return nil, damaged{fmt.Errorf("decode %s: %w", kind, err)}
	}
	return e, nil
}

// CheckKnown reports an error if this build does not know a kind or schema.
func CheckKnown(kind string, schema int) error {
	if schema < 1 || schema > Schema(kind) {
		return fmt.Errorf("decode event: unknown kind %q, schema %d", kind, schema)
	}
	return nil
}

// ErrDamaged means that a stored event does not have the form of its kind.
var ErrDamaged = errors.New("damaged event")

type damaged struct{ error }

func (damaged) Is(target error) bool { return target == ErrDamaged }

// DecodeEnvelope decodes the stored envelope of an event. With an error it returns what can be decoded.
func DecodeEnvelope(meta []byte) (e Envelope, err error) {
	if err = unmarshal(meta, &e); err != nil {
		err = fmt.Errorf("decode envelope: %w", err)
	}
	return e, err
}

// unmarshal decodes what a log stores. It accepts and returns the same as json.Unmarshal of the
// standard library, in a third of the time. Readers of logs spend much of their time here.
func unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

type decoder func(data []byte) (Event, error)

// decodersOf returns the decoders of a kind: one for each earlier form, oldest first, and one for
// the current form. A stored form never changes. A new form takes its place, and the old
// one becomes a type with a method Now; runCommitsPushed1 is an example.
func decodersOf[E catalogued](earlier ...decoder) []decoder {
	return append(earlier, func(data []byte) (Event, error) {
		var e E
		err := unmarshal(data, &e)
		return e, err
	})
}

// earlierForm decodes an earlier form and converts it to the current one.
func earlierForm[E interface{ Now() Event }](data []byte) (Event, error) {
	var e E
	if err := unmarshal(data, &e); err != nil {
		return nil, err
	}
	return e.Now(), nil
}

func decodersByKind(list []Noun) map[string][]decoder {
	m := map[string][]decoder{}
	for _, noun := range list {
		for _, forms := range slices.Concat(noun.people, noun.work) {
			m[kindOf(forms)] = forms
		}
	}
	return m
}

// kindOf returns the kind that decoders are of.
func kindOf(forms []decoder) string {
	zero, err := forms[len(forms)-1]([]byte("{}"))
	if err != nil {
		panic(err)
	}
	return zero.Kind()
}
