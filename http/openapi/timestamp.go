package openapi

import (
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// A Timestamp is a time in a request or an answer: RFC 3339, in UTC, with exactly three
// digits of a second. Some clients misread any other precision.
type Timestamp string

// FormatTime returns t as a Timestamp, cut to milliseconds.
func FormatTime(t time.Time) Timestamp { return Timestamp(t.UTC().Format("2006-01-02T15:04:05.000Z")) }

// FormatOptionalTime returns *t as a Timestamp, or nil for nil, which JSON writes as null.
func FormatOptionalTime(t *time.Time) *Timestamp {
	if t == nil {
		return nil
	}
	text := FormatTime(*t)
	return &text
}

// Schema describes the format in the OpenAPI document.
func (Timestamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-20T23:56:25.123Z"}}
}
