package config

import (
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseArguments(t *testing.T) {
	t.Parallel()
	type settings struct {
		Folder string `env:"SVC_DATA_DIR" envDefault:".svc" doc:"Where it is."`
	}
	parse := func(args ...string) (status int, done, check bool, stdout, stderr string) {
		flags := flag.NewFlagSet("svc-one", flag.ContinueOnError)
		flags.BoolVar(&check, "healthcheck", false, "ask whether it is alive")
		var out, err strings.Builder
		status, done = ParseArguments(flags, args, settings{}, &out, &err)
		return status, done, check, out.String(), err.String()
	}
	for _, args := range [][]string{{"-h"}, {"-help"}, {"--help"}, {"help"}, {"-healthcheck", "-help"}} {
		status, done, _, stdout, stderr := parse(args...)
		require.True(t, done)
		require.Zero(t, status, args)
		require.Empty(t, stderr)
		for _, text := range []string{"Usage: svc-one [flags]", "-healthcheck", "ask whether it is alive", "| `SVC_DATA_DIR` | `.svc` |"} {
			require.Contains(t, stdout, text)
		}
	}
	for _, args := range [][]string{{"start"}, {"-verbose"}, {"help", "me"}, {"-healthcheck=perhaps"}, {"-healthcheck", "now"}, {""}} {
		status, done, _, stdout, stderr := parse(args...)
		require.True(t, done, args)
		require.Equal(t, 2, status, args)
		require.Empty(t, stdout)
		require.Equal(t, "svc-one: unknown arguments\nTry svc-one -help.\n", stderr)
	}
	status, done, check, stdout, stderr := parse("-healthcheck")
	require.True(t, check)
	require.False(t, done)
	require.Zero(t, status)
	require.Empty(t, stdout+stderr)
	_, done, check, _, _ = parse()
	require.False(t, done || check)
}
