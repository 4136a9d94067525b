package config

import (
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type tls struct {
	Name string `env:"T_TLS_NAME" doc:"Name on the certificate."`
}

type sample struct {
	Addr     Addr          `env:"T_ADDR" envDefault:":4000" doc:"Address to listen on."`
	Secret   Secret        `env:"T_SECRET,required,notEmpty" min:"16" doc:"Shared | secret."`
	Optional Secret        `env:"T_PASSWORD" min:"4" doc:"May be left out."`
	Keys     []Secret      `env:"T_KEY" min:"4" doc:"New and old keys."`
	Database URL           `env:"T_URL,required,notEmpty" doc:"Database."`
	Site     URL           `env:"T_SITE_URL" doc:"Site."`
	Servers  []URL         `env:"T_SERVER_URL" doc:"A few of them."`
	Wait     time.Duration `env:"T_WAIT" envDefault:"30s" doc:"How long to wait."`
	Peers    CIDRs         `env:"T_PEERS" doc:"Who is trusted."`
	On       bool          `env:"T_ON" doc:"Whether it is on."`
	Size     int64         `env:"T_SIZE" envDefault:"256" doc:"Bytes."`
	Level    slog.Level    `env:"T_LEVEL" envDefault:"info" doc:"Least level logged."`
	TLS      tls
	inner    int
}

// good holds the minimum that sample needs.
func good(more ...string) []string {
	return append([]string{"T_SECRET=sixteen-bytes-ok!", "T_URL=postgres://svc:hunter2@db/svc"}, more...)
}

func TestParseDefaults(t *testing.T) {
	cfg, err := Parse[sample](good())
	require.NoError(t, err)
	require.Equal(t, Addr(":4000"), cfg.Addr)
	require.Equal(t, "sixteen-bytes-ok!", cfg.Secret.Reveal())
	require.Equal(t, "postgres://svc:hunter2@db/svc", cfg.Database.Reveal())
	require.True(t, cfg.Site.IsZero())
	require.Equal(t, 30*time.Second, cfg.Wait)
	require.Empty(t, cfg.Peers)
	require.False(t, cfg.On)
	require.EqualValues(t, 256, cfg.Size)
	require.Equal(t, slog.LevelInfo, cfg.Level)
	require.Zero(t, cfg.inner)
}

func TestParseValues(t *testing.T) {
	cfg, err := Parse[sample](good("T_ADDR=127.0.0.1:1", "T_KEY=newer,older", "T_SITE_URL=https://a.example/b",
		"T_SERVER_URL=nats://a:1,nats://b:2",
		"T_WAIT=5m", "T_PEERS=10.1.2.3/8, ::1", "T_ON=true", "T_SIZE=7", "T_LEVEL=DEBUG", "T_TLS_NAME=a"))
	require.NoError(t, err)
	require.Equal(t, Addr("127.0.0.1:1"), cfg.Addr)
	require.Equal(t, []Secret{"newer", "older"}, cfg.Keys)
	require.Equal(t, "a.example", cfg.Site.URL().Host)
	require.Len(t, cfg.Servers, 2)
	require.Equal(t, "nats://b:2", cfg.Servers[1].Reveal())
	require.Equal(t, 5*time.Minute, cfg.Wait)
	require.Equal(t, "10.0.0.0/8,::1/128", cfg.Peers.String())
	require.True(t, cfg.On)
	require.EqualValues(t, 7, cfg.Size)
	require.Equal(t, slog.LevelDebug, cfg.Level)
	require.Equal(t, "a", cfg.TLS.Name)
}

func TestParseNamesEveryProblemAtOnce(t *testing.T) {
	_, err := Parse[sample]([]string{"T_SECRET=", "T_WAIT=hunter2", "T_ON=hunter2", "T_TLS_NAME=ok"})
	var problems *Error
	require.ErrorAs(t, err, &problems)
	require.Equal(t, []Problem{
		{"T_SECRET", "is missing"},
		{"T_URL", "is missing"},
		{"T_WAIT", "is malformed: want a duration such as 30s or 5m"},
		{"T_ON", "is malformed: want true or false"},
	}, problems.Problems)
	require.Equal(t, "T_SECRET is missing; T_URL is missing; "+
		"T_WAIT is malformed: want a duration such as 30s or 5m; T_ON is malformed: want true or false", err.Error())
}

func TestParseNamesAMalformedVariableAndNeverItsValue(t *testing.T) {
	for variable, value := range map[string]string{
		"T_ADDR":       "hunter2",
		"T_SECRET":     "hunter2",
		"T_PASSWORD":   "hun",
		"T_KEY":        "hunter2,hun",
		"T_URL":        "hunter2",
		"T_SITE_URL":   "https://hunter2:hunter2",
		"T_SERVER_URL": "nats://a:1,hunter2",
		"T_WAIT":       "hunter2",
		"T_PEERS":      "10.0.0.0/8,hunter2",
		"T_ON":         "hunter2",
		"T_SIZE":       "hunter2",
		"T_LEVEL":      "hunter2",
	} {
		_, err := Parse[sample](good(variable + "=" + value))
		var problems *Error
		require.ErrorAs(t, err, &problems, variable)
		require.Len(t, problems.Problems, 1, variable)
		require.Equal(t, variable, problems.Problems[0].Variable)
		require.Contains(t, err.Error(), variable+" is malformed: want ")
		require.NotContains(t, err.Error(), "hun")
	}
}

func TestParseRefusesAddressesOfOtherSchemes(t *testing.T) {
	type web struct {
		Site URL `env:"T_URL" schemes:"http,https" doc:"Site."`
	}
	for address, ok := range map[string]bool{"": true, "http://a.example": true, "HTTPS://a.example": true} {
		_, err := Parse[web]([]string{"T_URL=" + address})
		require.Equal(t, ok, err == nil, address)
	}
	_, err := Parse[web]([]string{"T_URL=ftp://hunter2@a.example"})
	require.EqualError(t, err, "T_URL is malformed: want http:// or https://")
}

func TestParseRefusesAddressesWithoutAPort(t *testing.T) {
	for _, text := range []string{"4000", "host", "host:", "host:http", "host:65536", "host:-1", "::1:4000", "fd://", "fd://2", "fd://-3",
		"fd://x"} {
		require.Error(t, new(Addr).UnmarshalText([]byte(text)), text)
	}
	for _, text := range []string{":0", "127.0.0.1:65535", "[::1]:80", "localhost:4000", "fd://3"} {
		require.NoError(t, new(Addr).UnmarshalText([]byte(text)), text)
	}
}

func TestCIDRs(t *testing.T) {
	var c CIDRs
	require.NoError(t, c.UnmarshalText([]byte("10.0.0.0/8,192.0.2.7,::ffff:198.51.100.0/120,fe80::/10")))
	require.True(t, c.Contains(netip.MustParseAddr("10.9.9.9")))
	require.True(t, c.Contains(netip.MustParseAddr("::ffff:192.0.2.7")))
	require.True(t, c.Contains(netip.MustParseAddr("198.51.100.9")))
	require.True(t, c.Contains(netip.MustParseAddr("fe80::9%eth0")))
	require.False(t, c.Contains(netip.MustParseAddr("192.0.2.8")))
	require.False(t, c.Contains(netip.MustParseAddr("198.51.101.9")))
	for _, text := range []string{",", "10.0.0.0/33", "10.0.0.0/8,", "host", "0.0.0.0/0", "10.0.0.0/8,::/0", "::ffff:0.0.0.0/96"} {
		require.Error(t, new(CIDRs).UnmarshalText([]byte(text)), text)
	}
}

func TestHeaderNames(t *testing.T) {
	for _, text := range []string{
		"", "authorization", "HOST", "x-forwarded-for", "Content-Type", "sec-websocket-key", "X_Client_Cert", "X Client", "X-A\r\nX-B",
		"X:A", "-X", "1", "X-Sv\u212a", strings.Repeat("x", 65), "connection", "x-request-id", "Forwarded",
	} {
		require.Error(t, new(HeaderName).UnmarshalText([]byte(text)), text)
	}
	for _, text := range []string{"x-svc-client-cert", "X-SVC-CLIENT-CERT", "X-Svc-Client-Cert"} {
		var h HeaderName
		require.NoError(t, h.UnmarshalText([]byte(text)))
		require.Equal(t, HeaderName("X-Svc-Client-Cert"), h)
	}
	for _, environ := range [][]string{nil, {"T_HEADER="}} {
		parsed, err := Parse[struct {
			Header HeaderName `env:"T_HEADER" doc:"Header."`
		}](environ)
		require.NoError(t, err)
		require.Empty(t, parsed.Header)
	}
}

// TestInvalidStructsPanic has one struct for each omission that must panic.
func TestInvalidStructsPanic(t *testing.T) {
	for text, parse := range map[string]func(){
		"no doc tag": func() {
			_, _ = Parse[struct {
				A string `env:"T_A"`
			}](nil)
		},
		"T_SECRET is held by no config.Secret": func() {
			_, _ = Parse[struct {
				A string `env:"T_SECRET" doc:"A."`
			}](nil)
		},
		"T_URL is held by no config.URL": func() {
			_, _ = Parse[struct {
				A string `env:"T_URL" doc:"A."`
			}](nil)
		},
		"lacks notEmpty": func() {
			_, _ = Parse[struct {
				A string `env:"T_A,required" doc:"A."`
			}](nil)
		},
		"unexported field": func() {
			_, _ = Parse[struct {
				a Secret `env:"T_A" doc:"A."`
			}](nil)
		},
		"schemes tag": func() {
			_, _ = Parse[struct {
				A string `env:"T_A" schemes:"http" doc:"A."`
			}](nil)
		},
		"min tag": func() {
			_, _ = Parse[struct {
				A string `env:"T_A" min:"3" doc:"A."`
			}](nil)
		},
	} {
		require.Contains(t, panicText(parse), text)
	}
}

func panicText(f func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	f()
	return ""
}

func TestReference(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Reference(&b, sample{}))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Equal(t, "| Variable | Default | Required | Secret | Meaning |", lines[0])
	require.Contains(t, lines, "| `T_ADDR` | `:4000` |  |  | Address to listen on. |")
	require.Contains(t, lines, "| `T_SECRET` |  | yes | yes | Shared \\| secret. At least 16 bytes. |")
	require.Contains(t, lines, "| `T_TLS_NAME` |  |  |  | Name on the certificate. |")
	require.Len(t, lines, 2+reflect.TypeFor[sample]().NumField()-1, "one line a variable")
}
