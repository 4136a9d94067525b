package middleware_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
	"svc/http/middleware"
	"svc/test/journal"
)

// traced serves a request with an X-Request-Id, and returns the id after checking that handler,
// answer and log agree.
func traced(t *testing.T, sent ...string) string {
	t.Helper()
	var log journal.Log
	r := get("/")
	if sent != nil {
		r.Header["X-Request-Id"] = sent
	}
	var inside string
	w := serve(&log, r, func(w http.ResponseWriter, r *http.Request) {
		inside = middleware.RequestID(r.Context())
		ok(w, r)
	})
	require.Equal(t, []string{inside}, w.Result().Header["X-Request-Id"])
	require.Equal(t, inside, log.Line(t, "request")["request_id"])
	return inside
}

func TestSaneRequestIDIsTaken(t *testing.T) {
	for _, id := range []string{
		"7", "req-7", "019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9", "a.b_c:d/e+f=g-h", strings.Repeat("x", 128), "tok_svc_",
	} {
		require.Equal(t, id, traced(t, id))
	}
	require.Equal(t, "first", traced(t, "first", "second"))
}

func TestOtherRequestIDsAreReplaced(t *testing.T) {
	for name, id := range map[string]string{
		"none":            "",
		"too long":        strings.Repeat("x", 129),
		"a space":         "req 7",
		"a newline":       "req-7\nlevel=INFO msg=forged",
		"a last newline":  "req-7\n",
		"a quote":         `req-7"`,
		"a NUL":           "req-7\x00",
		"a letter beyond": "réq-7",
		"no UTF-8":        "req-\xff",
		"a script":        "<script>",
		"a token":         token,
		"a token inside":  "req-" + token + "-7",
	} {
		t.Run(name, func(t *testing.T) {
			got := traced(t, id)
			_, err := events.ParseID(got)
			require.NoError(t, err)
		})
	}
	_, err := events.ParseID(traced(t))
	require.NoError(t, err)
	require.NotEqual(t, traced(t), traced(t))
}

func TestRequestIDOutsideRequestIsEmpty(t *testing.T) {
	require.Empty(t, middleware.RequestID(t.Context()))
	var log journal.Log
	log.Logger().InfoContext(t.Context(), "start")
	require.NotContains(t, log.Line(t, "start"), "request_id")
}

func TestEveryLineOfARequestHasItsID(t *testing.T) {
	var log journal.Log
	r := get("/")
	r.Header.Set("X-Request-Id", "req-7")
	serve(&log, r, func(w http.ResponseWriter, r *http.Request) {
		log.Logger().InfoContext(r.Context(), "plain")
		log.Logger().With("part", "rest").InfoContext(r.Context(), "with")
		ok(w, r)
	})
	for _, message := range []string{"plain", "with", "request"} {
		require.Equal(t, "req-7", log.Line(t, message)["request_id"], message)
	}
}

func TestLineOfARequest(t *testing.T) {
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		status float64
		bytes  float64
	}{
		"an answer":                   {ok, 200, 8},
		"an answer without a status":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("four")) }, 200, 4},
		"an answer without a body":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 204, 0},
		"nothing, which is a 200 too": {func(http.ResponseWriter, *http.Request) {}, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log journal.Log
			w := serve(&log, httptest.NewRequest(http.MethodPost, "/a/b?q=secret", nil), c.handle)
			line := log.Line(t, "request")
			require.Equal(t, "INFO", line["level"])
			require.Equal(t, "POST", line["method"])
			require.Equal(t, "/a/b", line["path"], "what is searched for is not logged")
			require.Equal(t, "192.0.2.1", line["ip"])
			require.Equal(t, c.status, line["status"])
			require.EqualValues(t, w.Code, line["status"])
			require.Equal(t, c.bytes, line["bytes"])
			require.GreaterOrEqual(t, line["ms"], float64(0))
		})
	}
}

func TestTokenInThePathIsNotLogged(t *testing.T) {
	var log journal.Log
	serve(&log, get("/service-accounts/"+token+"/rotate"), ok)
	require.NotContains(t, log.String(), token[8:])
	require.Equal(t, "/service-accounts/tok_svc_[redacted]/rotate", log.Line(t, "request")["path"])
}

func TestPanicBeforeTheAnswerIsA500(t *testing.T) {
	var log journal.Log
	r := get("/")
	r.Header.Set("X-Request-Id", "req-7")
	w := serve(&log, r, func(http.ResponseWriter, *http.Request) { panic("the reason") })
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.JSONEq(t, `{"code":"internal_error",`+
		`"message":"Something went wrong on our side. The request id leads to the reason in the service's log.","details":{}}`, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NotEmpty(t, w.Header().Get("X-Request-Id"))

	line := log.Line(t, "panic")
	require.Equal(t, "ERROR", line["level"])
	require.Equal(t, "the reason", line["panic"])
	require.Contains(t, line["stack"], "TestPanicBeforeTheAnswerIsA500")
	require.Equal(t, "req-7", line["request_id"])
	require.EqualValues(t, 500, log.Line(t, "request")["status"])
}

// A client must not take a truncated answer for a complete one.
func TestPanicAfterAnswerBeganAbortsIt(t *testing.T) {
	for name, value := range map[string]any{"a panic": errors.New("the reason"), "a handler that gives up": http.ErrAbortHandler} {
		t.Run(name, func(t *testing.T) {
			var log journal.Log
			server := httptest.NewUnstartedServer(middleware.Traced(log.Logger(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, err := w.Write([]byte("half"))
				require.NoError(t, err)
				require.NoError(t, http.NewResponseController(w).Flush(), "the connection is within reach")
				panic(value)
			})))
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			server.Start()
			answer, err := server.Client().Get(server.URL)
			require.NoError(t, err)
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.Equal(t, "half", string(body))
			server.Close() // waits until everything is logged
			require.EqualValues(t, 200, log.Line(t, "request")["status"])
			if err, _ := value.(error); !errors.Is(err, http.ErrAbortHandler) {
				require.Equal(t, "the reason", log.Line(t, "panic")["panic"])
			} else {
				require.Empty(t, log.Lines(t, "panic"), "that is no failure")
			}
		})
	}
}
