package events

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Logs are decoded by a faster package than the standard library's; both must accept and return the same.
func FuzzDecodeLikeStandardLibrary(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	require.Greater(f, len(files), 50)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		kind := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".json"), ".minimal")
		text := string(data)
		for _, damaged := range []string{
			text, text[:len(text)/2], strings.ToUpper(text), strings.ReplaceAll(text, `"`, `'`), strings.ReplaceAll(text, "1", `"1"`),
			strings.ReplaceAll(text, ":", `:null,"x":`), strings.ReplaceAll(text, "a", "\xff"), strings.ReplaceAll(text, "e", `\ud800`),
			text + text, text + " ", strings.Replace(text, "{", text+",", 1), strings.ReplaceAll(text, "{", "["), "[" + text + "]", "null", "",
			strings.Replace(text, "{", strings.TrimSuffix(strings.TrimSpace(text), "}")+",", 1), // every name twice
		} {
			f.Add(kind, damaged)
		}
	}
	f.Add("", `{"actor":{"type":"user","id":"019a8c51-97ad-5e06-a2d3-0f4b81c6e75a","name":"a@b.c"},"origin":"web","ip":"::1"}`) // an envelope
	f.Fuzz(func(t *testing.T, kind, data string) {
		forms := kinds[kind]
		if len(forms) == 0 {
			requireSameDecoding(t, reflect.TypeFor[Envelope](), data)
			return
		}
		zero, err := forms[len(forms)-1]([]byte("{}"))
		require.NoError(t, err)
		requireSameDecoding(t, reflect.TypeOf(zero), data)
	})
}

func requireSameDecoding(t *testing.T, form reflect.Type, data string) {
	t.Helper()
	got, want := reflect.New(form), reflect.New(form)
	err, wantErr := unmarshal([]byte(data), got.Interface()), json.Unmarshal([]byte(data), want.Interface())
	require.Equal(t, wantErr == nil, err == nil, "%s: %v, %v", data, err, wantErr)
	if err == nil {
		require.Equal(t, want.Interface(), got.Interface(), data)
	}
}
