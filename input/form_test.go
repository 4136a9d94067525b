package input_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/fault"
	"svc/input"
)

func TestForms(t *testing.T) {
	t.Parallel()
	const id = "a19aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9"
	forty := strings.Repeat("a", 40)
	for _, c := range []struct {
		form    input.Form
		fit     []string
		refused []string
	}{
		{input.Slug, []string{"abc", "a-1", "a--b", forty},
			[]string{"ab", forty + "a", "ab-", "-ab", "1ab", "Abc", "a_b", "a.b", "äbc", "abc\n", "\u212Abc", "сbc", id}},
		{input.AccountName, []string{"abc", "ab-", id, forty}, []string{"ab", forty + "a", "-ab", "1ab", "Abc", "a_b", "abc\n", "сi-bot"}},
	} {
		for _, text := range c.fit {
			require.NoError(t, c.form.Check("slug", text), "%q", text)
		}
		for _, text := range c.refused {
			require.Equal(t, fault.Field("slug", "must %s", c.form.Rule), c.form.Check("slug", text), "%q", text)
		}
	}
}

func TestSlugOf(t *testing.T) {
	t.Parallel()
	for login, want := range map[string]string{
		"mia": "mia", "Mia.Torres_7": "mia-torres-7", "7up": "u-7up", "": "u-home", "日本": "u-home", "ab": "ab-home",
		"\u212Aim": "im-home", "İ": "u-home", strings.Repeat("a-", 40): strings.Repeat("a-", 16) + "a",
	} {
		require.Equal(t, want, input.SlugOf(login), "%q", login)
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"7": true, "019aa0f4-6b1c-7d52-9e83-1c0a5b7e42d9": true, "a.b:c/d+e=f": true, strings.Repeat("x", 128): true,
		"": false, strings.Repeat("x", 129): false, "a b": false, "a\n": false, "a_b": true, "é": false, "\u212A": false,
	} {
		require.Equal(t, want, input.RequestID(id), "%q", id)
	}
}
