package farm

import (
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// A timestamp is formatted as everywhere in the API: in UTC, with milliseconds.
type timestamp string

func formatTime(t time.Time) timestamp { return timestamp(t.UTC().Format("2006-01-02T15:04:05.000Z")) }

// Schema describes the format in the OpenAPI document.
func (timestamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-20T23:56:25.000Z"}}
}
