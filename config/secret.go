package config

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// A Secret is a text that no printing shows: fmt, encoding/json and log/slog
// all write [redacted].
//
// Keep secrets in exported fields, for fmt cannot call methods on others, and
// call Reveal only where the text is used. The verbs %p and %w, which go vet
// refuses for a Secret, would show it as well.
type Secret string

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

// String returns [redacted].
func (s Secret) String() string { return redacted }

// GoString returns [redacted].
func (s Secret) GoString() string { return redacted }

// Format writes [redacted] for every verb that fmt lets a type format.
func (s Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }

// LogValue returns [redacted].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns [redacted].
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText takes any text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}
