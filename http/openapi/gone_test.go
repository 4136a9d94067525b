package openapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A goneCaller takes the header of an answer and nothing else.
type goneCaller struct {
	*httptest.ResponseRecorder
	statuses []int
	writes   int
	onWrite  func()
}

func (c *goneCaller) WriteHeader(status int) { c.statuses = append(c.statuses, status) }

func (c *goneCaller) Write([]byte) (int, error) {
	c.writes++
	c.onWrite()
	return 0, errors.New("broken pipe")
}

func TestAnswerToGoneCallerIsWrittenOnce(t *testing.T) {
	for name, cancelled := range map[string]bool{"it closed the connection": true, "it does not read": false} {
		t.Run(name, func(t *testing.T) {
			api, left := newAPI(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodPut, "/greetings/7", strings.NewReader(`{"name":"Zoë"}`))
			r.Header.Set("Authorization", "me")
			r.Header.Set("Content-Type", "application/json")
			w := &goneCaller{ResponseRecorder: httptest.NewRecorder(), onWrite: func() {
				if cancelled {
					cancel()
				}
			}}
			require.NotPanics(t, func() { api.ServeHTTP(w, r) })
			require.Equal(t, []int{http.StatusOK}, w.statuses)
			require.Equal(t, 1, w.writes)
			require.Equal(t, 1, *left)
		})
	}
}
