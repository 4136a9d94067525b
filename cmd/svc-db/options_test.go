package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlagsBeforeAndAfterCommand(t *testing.T) {
	for _, args := range [][]string{
		{"-user=u", "rebuild", "members", "runs"},
		{"rebuild", "members", "-user=u", "runs"},
		{"rebuild", "members", "runs", "--user", "u"},
	} {
		o, err := parseOptions(args)
		require.NoError(t, err)
		require.Equal(t, options{command: "rebuild", views: []string{"members", "runs"}, user: "u"}, o)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"-help"}, {"--help"}, {"info", "-h"}, {"help"}, {"help", "info"}} {
		r := runHere(t, nil, args...)
		require.Equal(t, result{status: 0, stdout: help}, r)
	}
}

func TestSeedNeedsTheVaultKey(t *testing.T) {
	r := runHere(t, nil, "-seed=development", "-url=postgres://svc@127.0.0.1:1/svc")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, "-seed needs SVC_VAULT_MASTER_KEY")
}

func TestWrongCommandLines(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown command clean":                         {"clean"},
		"unknown flag -verbose":                         {"-verbose"},
		"unknown flag\n":                                {"-url:postgres://u:" + marker + "@h/db"},
		"unknown command; a database address goes into": {"postgres://u:" + marker + "@h/db"},
		"a flag is written -name=value":                 {"-=" + marker},
		"migrate takes no arguments":                    {"migrate", marker},
		"info takes no arguments":                       {"info", "1"},
		"flag needs an argument: -password":             {"-password"},
		"-connect-retries must be a number, 0 or more":  {"-connect-retries=-1"},
		"-workspace must be the id of a workspace":      {"rebuild", "-workspace=00000000-0000-0000-0000-000000000000"},
		"-seed can only be development":                 {"-seed=production"},
		"-seed goes with migrate":                       {"info", "-seed=development"},
		"-seed-file goes with -seed":                    {"-seed-file=f"},
	} {
		t.Run(want, func(t *testing.T) {
			r := runHere(t, nil, args...)
			require.Equal(t, 2, r.status)
			require.Contains(t, r.stderr, want)
			require.Contains(t, r.stderr, usage)
			require.Empty(t, r.stdout)
		})
	}
}
