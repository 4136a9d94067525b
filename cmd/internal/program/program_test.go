package program

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/config"
)

type environment struct {
	Addr config.Addr `env:"SVC_ONE_ADDR" envDefault:":1" doc:"Address to listen on."`
}

func TestServerDoesWhatItsFlagsSay(t *testing.T) {
	t.Parallel()
	say := func(text string) func(context.Context, []string, io.Writer) error {
		return func(_ context.Context, environ []string, w io.Writer) error {
			_, err := io.WriteString(w, text+" "+strings.Join(environ, " "))
			return err
		}
	}
	s := Server{Name: "svc-one", Version: "1.2", Config: environment{}, Run: say("serves"), Actions: []Action{
		{Flag: "describe", Usage: "say what it is", Do: say("describes")},
		Healthcheck("SVC_ONE_ADDR", "/", func(e environment) config.Addr { return e.Addr }),
	}}
	for _, c := range []struct {
		args, environ string
		status        int
		stdout        string // its beginning
		stderr        string
	}{
		{"", "a=b", 0, "serves a=b", ""},
		{"-describe", "a=b", 0, "describes a=b", ""},
		{"-describe=true", "a=b", 0, "describes a=b", ""},
		{"-version", "", 0, "svc-one 1.2\n", ""},
		{"-help", "", 0, "Usage: svc-one [flags]", ""},
		{"-describe=maybe", "", 2, "", "svc-one: unknown arguments\nTry svc-one -help.\n"},
		{"now", "", 2, "", "svc-one: unknown arguments\nTry svc-one -help.\n"},
		{"-healthcheck", "SVC_ONE_ADDR=nowhere", 1, "time=", ""},
	} {
		var stdout, stderr strings.Builder
		status := s.main(strings.Fields(c.args), strings.Fields(c.environ), &stdout, &stderr)
		require.Equal(t, c.status, status, c.args)
		require.True(t, strings.HasPrefix(stdout.String(), c.stdout), "%s: %s", c.args, &stdout)
		require.Equal(t, c.stderr, stderr.String(), c.args)
	}
}

func TestErrorIsLoggedInTheFormatOfTheServer(t *testing.T) {
	t.Parallel()
	fail := func(context.Context, []string, io.Writer) error { return errors.New("no port") }
	for format, want := range map[LogFormat]string{Text: `program=svc-one err="no port"`, JSON: `"program":"svc-one","err":"no port"}`} {
		var out strings.Builder
		require.Equal(t, 1, Server{Name: "svc-one", Config: environment{}, Run: fail, Log: format}.main(nil, nil, &out, io.Discard))
		require.Contains(t, out.String(), want)
	}
}
