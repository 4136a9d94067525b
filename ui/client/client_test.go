package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/events"
)

// Slugs and keys that are not valid header values are refused, and do not look like an unavailable
// service.
func TestInvalidHeaderValuesAreRefused(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	defer service.Close()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, text := range []string{"acme\x00", "acme\r\nX-A: b", "\x7f"} {
		session := NewService(service.URL).NewSession(r, text)
		_, err := session.GetWorkspace(t.Context(), nil)
		require.Equal(t, "tenant_not_found", AsRefused(err).Code, "%q", text)

		session = NewService(service.URL).NewSession(r, "acme")
		_, err = session.CreateServiceAccount(t.Context(), &CreateServiceAccountParams{IdempotencyKey: &text},
			CreateServiceAccountJSONRequestBody{})
		require.Equal(t, http.StatusUnprocessableEntity, AsRefused(err).Status, "%q", text)
	}
}

func TestSessionSetsOriginHeader(t *testing.T) {
	said := make(chan http.Header, 1)
	rest := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { said <- r.Header }))
	t.Cleanup(rest.Close)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/w/acme", nil)
	res, err := NewService(rest.URL).NewSession(r, "acme").GetWorkspace(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, "ui", (<-said).Get("X-Svc-Origin"))
}

func TestTooLargeAnswerIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	text := `{"name":"` + strings.Repeat("a", maxAnswer) + `"}`
	rest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	t.Cleanup(rest.Close)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/w/acme/audit/replay", nil)
	_, err := Decode[ReplayAnswerBody](NewService(rest.URL).NewSession(r, "acme").ReplayAudit(t.Context(), &ReplayAuditParams{}))
	refused := AsRefused(err)
	require.NotNil(t, refused, "%.200v", err)
	require.Equal(t, "This is too large to show on a page. Use the export or the API instead.", refused.Message)
	require.Equal(t, http.StatusRequestEntityTooLarge, refused.Status)
}

// A new kind of event does not change the generated client; see codegen.yaml.
func TestGeneratedClientListsNoKinds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("client.gen.go")
	require.NoError(t, err)
	for _, kind := range events.Kinds() {
		require.False(t, strings.Contains(string(text), `"`+kind+`"`), kind)
	}
}
