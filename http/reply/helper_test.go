package reply_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/http/reply"
)

const token = "tok_svc_0123456789ABCDEFGHIJKLMNOPQRSTUVabcdef"

// A journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *journal) logger() *slog.Logger {
	return slog.New(reply.Logger{Handler: slog.NewJSONHandler(j, nil)})
}

// lines returns the lines of one message.
func (j *journal) lines(t *testing.T, message string) (list []map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewBufferString(j.String()))
	for d.More() {
		var line map[string]any
		require.NoError(t, d.Decode(&line))
		if line["msg"] == message {
			list = append(list, line)
		}
	}
	return list
}

// line returns the only line of a message.
func (j *journal) line(t *testing.T, message string) map[string]any {
	t.Helper()
	list := j.lines(t, message)
	require.Len(t, list, 1, "%q in %s", message, j)
	return list[0]
}

// serve lets a handler answer a request, traced.
func serve(j *journal, r *http.Request, handle http.HandlerFunc) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	reply.Traced(j.logger(), handle).ServeHTTP(w, r)
	return w
}

func get(path string) *http.Request { return httptest.NewRequest(http.MethodGet, path, nil) }

func ok(w http.ResponseWriter, _ *http.Request) { reply.JSON(w, http.StatusOK, map[string]int{"n": 7}) }
