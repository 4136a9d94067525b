package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An answer is what the service says to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

// requireError checks the form of an error: a 5xx explains nothing.
func (a answer) requireError(t *testing.T, line string) {
	t.Helper()
	require.NotEqual(t, http.StatusInternalServerError, a.status, line)
	require.Equal(t, "application/json", a.header.Get("Content-Type"), line)
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.body), &fields), line)
	require.Len(t, fields, 3, line)
	require.NotEmpty(t, fields["code"], line)
	require.NotEmpty(t, fields["message"], line)
	require.IsType(t, map[string]any{}, fields["details"], line)
	if a.status >= 500 {
		require.Empty(t, fields["details"], line)
	}
}

// at returns what is at a place of the body, such as "account.id" or "items.0.id".
func (a answer) at(t *testing.T, place string) any {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(a.body), &value), a.body)
	for name := range strings.SplitSeq(place, ".") {
		switch v := value.(type) {
		case map[string]any:
			require.Contains(t, v, name, a.body)
			value = v[name]
		case []any:
			var i int
			_, err := fmt.Sscan(name, &i)
			require.NoError(t, err)
			require.Less(t, i, len(v), a.body)
			value = v[i]
		default:
			require.Fail(t, "nothing at "+place, a.body)
		}
	}
	return value
}

func (a answer) text(t *testing.T, place string) string {
	t.Helper()
	text, ok := a.at(t, place).(string)
	require.True(t, ok, "%s of %s", place, a.body)
	return text
}

// is checks status and, of an error, the code: "404 tenant_not_found".
func (a answer) is(t *testing.T, want string, about ...any) answer {
	t.Helper()
	require.Equal(t, want, a.verdict(), about...)
	return a
}

// verdict is the status and, of an error, the code.
func (a answer) verdict() string {
	var e struct{ Code string }
	if a.status >= 400 {
		_ = json.Unmarshal([]byte(a.body), &e) // no JSON has no code
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, e.Code))
}
