// Package journal is a log that a test reads.
package journal

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/middleware"
)

// A Log is one that a test reads. Its zero value is ready to use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes in a line.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger writes to the log, with the id of the request in each line.
func (l *Log) Logger() *slog.Logger {
	return slog.New(middleware.Logger{Handler: slog.NewJSONHandler(l, nil)})
}

// Lines returns the lines of one message.
func (l *Log) Lines(t testing.TB, message string) (list []map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewBufferString(l.String()))
	for d.More() {
		var line map[string]any
		require.NoError(t, d.Decode(&line))
		if line["msg"] == message {
			list = append(list, line)
		}
	}
	return list
}

// Line returns the only line of a message.
func (l *Log) Line(t testing.TB, message string) map[string]any {
	t.Helper()
	list := l.Lines(t, message)
	require.Len(t, list, 1, "%q in %s", message, l)
	return list[0]
}
