package workspaces

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/ui/client"
	"svc/ui/page"
)

func TestLastUseOfWorkspace(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	v := &page.Visit{Request: httptest.NewRequest(http.MethodGet, "/w", nil), Now: now}
	var out bytes.Buffer
	require.NoError(t, view(v, []client.OwnWorkspace{
		{Name: "Acme", Slug: "acme", Role: "owner", LastActiveAt: new(now.Add(-time.Minute))}, {Name: "New", Slug: "new", Role: "owner"},
	}, nil, 0).Render(t.Context(), &out))
	text := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(out.String(), "")), " ")
	require.Contains(t, text, "acme, used 1 minute ago")
	require.NotContains(t, text, "new,")
}
