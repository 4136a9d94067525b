package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var verbs = []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%c", "%U", "%08.3f"}

func TestSecretIsNeverPrinted(t *testing.T) {
	s := Secret("hunter2")
	holder := struct {
		S    Secret
		P    *Secret
		List []Secret
		Map  map[string]Secret
	}{s, &s, []Secret{s}, map[string]Secret{"a": s}}

	for _, verb := range verbs {
		require.Equal(t, "[redacted]", fmt.Sprintf(verb, s), verb)
		requireHidden(t, fmt.Sprintf(verb, holder))
		requireHidden(t, fmt.Sprintf(verb, &holder))
	}
	require.Equal(t, "[redacted]", s.String())
	require.Equal(t, "[redacted]", s.GoString())
	require.Equal(t, "[redacted]", fmt.Sprint(s))

	text, err := json.Marshal(holder)
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(text), "[redacted]"))
	requireHidden(t, string(text))

	var b bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&b, nil), slog.NewTextHandler(&b, nil)} {
		slog.New(h).Info("a", "secret", s, "holder", holder, "pointer", &s)
	}
	require.GreaterOrEqual(t, strings.Count(b.String(), "[redacted]"), 6)
	requireHidden(t, b.String())
	require.Equal(t, "hunter2", s.Reveal())
}

func requireHidden(t *testing.T, text string) {
	t.Helper()
	require.NotContains(t, text, "hunter2")
	require.NotContains(t, strings.ToLower(text), fmt.Sprintf("%x", "hunter2"))
}

func TestURLPrintsWithoutItsSecrets(t *testing.T) {
	for text, printed := range map[string]string{
		"postgres://svc:hunter2@db:5432/svc?sslmode=require":               "postgres://svc:[redacted]@db:5432/svc?sslmode=require",
		"postgres://svc@db/svc":                                            "postgres://svc@db/svc",
		"postgres:///svc?host=/run/pg&user=svc&password=hunter2":           "postgres:///svc?host=/run/pg&user=svc&password=[redacted]",
		"postgresql://db/svc?sslpassword=hunter2&sslmode=disable":          "postgresql://db/svc?sslpassword=[redacted]&sslmode=disable",
		"postgres://db/svc?PassWord=hunter2":                               "postgres://db/svc?PassWord=[redacted]",
		"postgres://db/svc?p%61ssword=hunter2":                             "postgres://db/svc?p%61ssword=[redacted]",
		"postgres://db/svc?p%zzssword=hunter2":                             "postgres://db/svc?p%zzssword=[redacted]",
		"nats://hunter2@bus:4222":                                          "nats://[redacted]@bus:4222",
		"https://redacted:hunter2@a.example/redacted":                      "https://redacted:[redacted]@a.example/redacted",
		"s3://AKIA:hunter2%2Fhunter2%40@bucket/dir?region=x&token=hunter2": "s3://AKIA:[redacted]@bucket/dir?region=x&token=[redacted]",
		"http://127.0.0.1:4001":                                            "http://127.0.0.1:4001",
	} {
		u, err := ParseURL(text)
		require.NoError(t, err, text)
		require.Equal(t, text, u.Reveal())
		require.Equal(t, text, u.URL().String())
		requireURL(t, u, printed)
	}
}

func requireURL(t *testing.T, u URL, printed string) {
	t.Helper()
	for _, verb := range verbs {
		require.Equal(t, printed, fmt.Sprintf(verb, u), verb)
		requireHidden(t, fmt.Sprintf(verb, struct{ U URL }{u}))
		requireHidden(t, fmt.Sprintf(verb, struct{ u URL }{u}))
	}
	text, err := json.Marshal(u)
	require.NoError(t, err)
	var decoded string
	require.NoError(t, json.Unmarshal(text, &decoded))
	require.Equal(t, printed, decoded)

	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("a", "url", u, "holder", struct{ U URL }{u})
	requireHidden(t, b.String())
}

func TestParseURLRefuses(t *testing.T) {
	for _, text := range []string{
		"", "hunter2", "/hunter2", "localhost:4001", "mailto:a", "//host/path", "http://", "http:///path", "http:host",
		"host=db password=hunter2",
		"postgres://svc:hunter2@db:port/svc",
		// Passwords with an unescaped / ? or #, which would be cut there.
		"postgres://svc:1/hunter2@db/svc", "postgres://svc:1?hunter2@db/svc", "postgres://svc:1#hunter2@db/svc",
		"postgres://svc:a@1/hunter2@db/svc",
	} {
		_, err := ParseURL(text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.Empty(t, URL{}.String())
	require.Empty(t, URL{}.Reveal())
	require.Nil(t, URL{}.URL())
}

func TestURLIsACopy(t *testing.T) {
	u, err := ParseURL("http://a.example")
	require.NoError(t, err)
	u.URL().Host = "b.example"
	require.Equal(t, "http://a.example", u.Reveal())
}

func TestPrintHidesSecrets(t *testing.T) {
	cfg, err := Parse[sample](good("T_KEY=hunter2,hunter2", "T_SERVER_URL=nats://a:hunter2@b:1,nats://hunter2@c:2", "T_PEERS=10.0.0.0/8"))
	require.NoError(t, err)
	var b bytes.Buffer
	Print(slog.New(slog.NewJSONHandler(&b, nil)), cfg)
	require.Equal(t, 1, strings.Count(b.String(), "\n"), "one line")
	requireHidden(t, b.String())

	var line map[string]string
	require.NoError(t, json.Unmarshal(b.Bytes(), &line))
	delete(line, "time")
	require.Equal(t, map[string]string{
		"level": "INFO", "msg": "configuration",
		"T_ADDR": ":4000", "T_SECRET": "[redacted]", "T_PASSWORD": "", "T_KEY": "[[redacted] [redacted]]",
		"T_URL": "postgres://svc:[redacted]@db/svc", "T_SITE_URL": "", "T_SERVER_URL": "[nats://a:[redacted]@b:1 nats://[redacted]@c:2]",
		"T_WAIT": "30s", "T_PEERS": "10.0.0.0/8",
		"T_ON": "false", "T_SIZE": "256", "T_LEVEL": "info", "T_TLS_NAME": "",
	}, line)
}

func TestIsOrigin(t *testing.T) {
	for text, want := range map[string]bool{
		"https://a.example": true, "http://127.0.0.1:3000": true, "https://a.example/": true,
		"https://a.example/app": false, "https://ann@a.example": false, "https://a.example?a=b": false,
	} {
		u, err := ParseURL(text)
		require.NoError(t, err, text)
		require.Equal(t, want, u.IsOrigin(), text)
	}
	require.False(t, URL{}.IsOrigin())
}
