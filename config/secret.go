package config

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// A Secret is a string that is never printed: fmt, encoding/json and log/slog all write
// [redacted].
//
// Keep secrets in exported fields, because fmt cannot call methods of unexported ones, and
// call Reveal only where the text is used. The verbs %p and %w would show it, but go vet
// refuses them.
type Secret string

// Reveal returns the text itself.
func (s Secret) Reveal() string { return string(s) }

// String returns [redacted].
func (s Secret) String() string { return redacted }

// GoString returns [redacted].
func (s Secret) GoString() string { return redacted }

// Format writes [redacted] for every verb.
func (s Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }

// LogValue returns [redacted].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns [redacted].
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// UnmarshalText accepts any text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(text)
	return nil
}
