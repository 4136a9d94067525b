package reply_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"svc/fault"
	"svc/http/middleware"
	"svc/http/reply"
	"svc/test/journal"
)

// requireSilent500 checks that an answer is a generic 500.
func requireSilent500(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.JSONEq(t, `{"code":"internal_error","message":"Something went wrong on our side. `+
		`The request id leads to the reason in the service's log.","details":{}}`, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NotEmpty(t, w.Header().Get("X-Request-Id"))
}

// fail answers a request with an error.
func fail(log *journal.Log, err error) *httptest.ResponseRecorder {
	return failWith(log, httptest.NewRequest(http.MethodGet, "/", nil), err)
}

func failWith(log *journal.Log, r *http.Request, err error) *httptest.ResponseRecorder {
	r.Header.Set("X-Request-Id", "req-7")
	w := httptest.NewRecorder()
	middleware.Traced(log.Logger(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply.Error(w, r, log.Logger(), err)
	})).ServeHTTP(w, r)
	return w
}

func TestUnknownErrorIsGeneric500AndLogged(t *testing.T) {
	var log journal.Log
	w := fail(&log, errors.New("password authentication of svc went wrong"))
	requireSilent500(t, w)
	line := log.Line(t, "request failed")
	require.Equal(t, "ERROR", line["level"])
	require.Equal(t, "password authentication of svc went wrong", line["err"])
	require.Equal(t, "req-7", line["request_id"])
	require.Equal(t, "req-7", w.Header().Get("X-Request-Id"))
}

func TestFaultIsAnsweredUnchanged(t *testing.T) {
	var log journal.Log
	taken := fault.New(fault.Conflict, "taken", "It is taken.").With("name", "ci-bot")
	w := fail(&log, fmt.Errorf("create: %w", taken))
	require.Equal(t, http.StatusConflict, w.Code)
	require.JSONEq(t, `{"code":"taken","message":"It is taken.","details":{"name":"ci-bot"}}`, w.Body.String())
	require.Empty(t, log.Lines(t, "request failed"), "what the caller is told is not for the log")
}

func TestDetailsAreNeverNull(t *testing.T) {
	w := fail(&journal.Log{}, fault.New(fault.NotFound, "gone", "It is gone."))
	require.Equal(t, `{"code":"gone","message":"It is gone.","details":{}}`+"\n", w.Body.String())
}

func Test5xxHasNoDetails(t *testing.T) {
	var log journal.Log
	w := fail(&log, fmt.Errorf("append: %w", fault.ErrBusy.With("host", "10.0.0.7")))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.JSONEq(t, `{"code":"busy","message":"The service is busy. Try again in a moment.","details":{}}`, w.Body.String())
	line := log.Line(t, "request failed")
	require.Equal(t, "busy", line["code"])
	require.Equal(t, "INFO", line["level"], "nothing is amiss")
	require.Contains(t, line["err"], "append: ")
}

func TestHeadersOfErrors(t *testing.T) {
	for _, c := range []struct {
		err   error
		name  string
		value string
	}{
		{fault.ErrUnauthenticated, "WWW-Authenticate", "Bearer"},
		{fault.ErrBusy, "Retry-After", "1"},
		{fault.ErrUnavailable, "Retry-After", "1"},
		{fault.ErrBusy.After(4001 * time.Millisecond), "Retry-After", "5"},
		{fault.New(fault.RateLimited, "any", "Any.").After(30 * time.Second), "Retry-After", "30"},
	} {
		w := fail(&journal.Log{}, c.err)
		require.Equal(t, c.value, w.Header().Get(c.name))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
	for _, err := range []error{fault.ErrTenantNotFound, errors.New("bug")} {
		w := fail(&journal.Log{}, err)
		require.Empty(t, w.Header().Get("WWW-Authenticate"))
		require.Empty(t, w.Header().Get("Retry-After"))
	}
}

func TestUnreachableDependencyIs503(t *testing.T) {
	for name, err := range map[string]error{
		"a replica that has to move on": fmt.Errorf("list: %w",
			&pgconn.PgError{Code: "40001", Message: "canceling statement due to conflict with recovery"}),
		"a connection that is refused": fmt.Errorf("find: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")}),
		"an answer that does not come": fmt.Errorf("find: %w", context.DeadlineExceeded),
	} {
		t.Run(name, func(t *testing.T) {
			var log journal.Log
			w := fail(&log, err)
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.JSONEq(t, `{"code":"unavailable","message":"Something that the service needs does not answer. `+
				`Try again in a moment.","details":{}}`, w.Body.String())
			require.Equal(t, "1", w.Header().Get("Retry-After"))
			require.Equal(t, err.Error(), log.Line(t, "request failed")["err"])
		})
	}
}

func TestDisconnectedCallerIsNotAnError(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	var log journal.Log
	w := failWith(&log, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(gone), fmt.Errorf("find: %w", context.Canceled))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "INFO", log.Line(t, "caller went away")["level"])
	require.Empty(t, log.Lines(t, "request failed"))
}

// A cancellation while the caller still waits is a bug of the service.
func TestOtherCancellationIsAnError(t *testing.T) {
	var log journal.Log
	requireSilent500(t, fail(&log, context.Canceled))
	log.Line(t, "request failed")
}

func TestJSON(t *testing.T) {
	w := httptest.NewRecorder()
	reply.JSON(w, http.StatusCreated, map[string]any{"name": "<ci-bot>", "list": []int{}})
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, `{"list":[],"name":"\u003cci-bot\u003e"}`+"\n", w.Body.String())
}

func TestJSONKeepsCacheControl(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Cache-Control", "private, no-cache")
	reply.JSON(w, http.StatusOK, nil)
	require.Equal(t, "private, no-cache", w.Header().Get("Cache-Control"))
	require.Equal(t, "null\n", w.Body.String())
}
