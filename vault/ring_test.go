package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/config"
)

func TestKeysAsAnOperatorListsThem(t *testing.T) {
	for name, value := range map[string]string{
		"one":                    older,
		"white space around it":  " " + older + "\n",
		"no previous one yet":    older + ",",
		"the same one twice":     older + "," + older,
		"blanks between the two": " , " + older,
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, ringOf(t, older).ids(), ringFromEnvironment(t, value).ids())
		})
	}
	require.Equal(t, []string{ringOf(t, newer).ids()[0], ringOf(t, older).ids()[0]},
		ringFromEnvironment(t, newer+", "+older).ids(), "in their order")
}

func ringFromEnvironment(t *testing.T, value string) Ring {
	t.Helper()
	cfg, err := config.Parse[struct {
		MasterKey []config.Secret `env:"SVC_VAULT_MASTER_KEY,required,notEmpty" doc:"Seals stored credentials."`
	}]([]string{"SVC_VAULT_MASTER_KEY=" + value})
	require.NoError(t, err)
	return ringOf(t, cfg.MasterKey...)
}

func TestInvalidKeys(t *testing.T) {
	short := config.Secret(older[:minKeyBytes-1])
	for name, test := range map[string]struct {
		keys []config.Secret
		want string
	}{
		"none":         {nil, "holds no key"},
		"blanks":       {[]config.Secret{"", " "}, "holds no key"},
		"short":        {[]config.Secret{short}, "key 1 is shorter than 32 bytes"},
		"second short": {[]config.Secret{newer, short}, "key 2 is shorter than 32 bytes"},
		"padded":       {[]config.Secret{short + "  "}, "key 1 is shorter than 32 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewRing(test.keys)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "SVC_VAULT_MASTER_KEY")
			require.ErrorContains(t, err, "openssl rand -base64 32")
			require.NotContains(t, err.Error(), short.Reveal())
		})
	}
	ringOf(t, config.Secret(older[:minKeyBytes]))
}

func TestRingWithoutKeyFails(t *testing.T) {
	var none Ring
	_, err := none.Seal("here", []byte("token"))
	require.ErrorContains(t, err, "no key")
	sealed, err := ringOf(t, older).Seal("here", []byte("token"))
	require.NoError(t, err)
	_, err = none.Open("here", sealed)
	require.ErrorIs(t, err, ErrKeyChanged)
	_, err = Rotate(t.Context(), nil, none)
	require.ErrorContains(t, err, "no key")
}

func TestRingIsNeverPrinted(t *testing.T) {
	ring := ringOf(t, newer, older)
	tokens := Tokens{Ring: ring}
	hidden := struct{ ring Ring }{ring}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%08.3f"} {
		require.Equal(t, "[redacted]", fmt.Sprintf(verb, ring), verb)
		for _, holder := range []any{tokens, &tokens, hidden, &hidden, []Ring{ring}, &ring} {
			requireNoKey(t, fmt.Sprintf(verb, holder))
		}
	}
	require.Equal(t, "[redacted]", ring.String())

	text, err := json.Marshal(struct{ Ring Ring }{ring})
	require.NoError(t, err)
	require.JSONEq(t, `{"Ring":"[redacted]"}`, string(text))

	var b bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&b, nil), slog.NewTextHandler(&b, nil)} {
		slog.New(h).Info("a", "ring", ring, "pointer", &ring, "holder", hidden)
	}
	require.GreaterOrEqual(t, strings.Count(b.String(), "[redacted]"), 4)
	requireNoKey(t, b.String())
}

func requireNoKey(t *testing.T, text string) {
	t.Helper()
	for _, key := range []string{older, newer} {
		require.NotContains(t, text, key)
		require.NotContains(t, strings.ToLower(text), fmt.Sprintf("%x", key))
		require.NotContains(t, text, strings.Trim(fmt.Sprint([]byte(key)), "[]"))
	}
}
