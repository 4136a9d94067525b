package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

// requireError requires the JSON form of errors. A 5xx has no details, and no answer is a 500.
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

// at returns the value at a dotted path of the body, such as "account.id" or "items.0.id".
func (a answer) at(t *testing.T, path string) any {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(a.body), &value), a.body)
	for name := range strings.SplitSeq(path, ".") {
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
			require.Fail(t, "nothing at "+path, a.body)
		}
	}
	return value
}

// text returns the string at a dotted path of the body.
func (a answer) text(t *testing.T, path string) string {
	t.Helper()
	text, ok := a.at(t, path).(string)
	require.True(t, ok, "%s of %s", path, a.body)
	return text
}

// is requires a status and, for an error, a code, such as "404 tenant_not_found". It returns the answer.
func (a answer) is(t *testing.T, want string, about ...any) answer {
	t.Helper()
	require.Equal(t, want, a.statusAndCode(), about...)
	return a
}

// statusAndCode returns the status and, for an error, the code, such as "404 tenant_not_found".
func (a answer) statusAndCode() string {
	var e struct{ Code string }
	if a.status >= 400 {
		_ = json.Unmarshal([]byte(a.body), &e) // what is not JSON has no code
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, e.Code))
}
