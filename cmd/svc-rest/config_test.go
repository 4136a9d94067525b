package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/config"
)

func TestReadmeTellsEveryVariable(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var reference bytes.Buffer
	require.NoError(t, config.Reference(&reference, Config{}))
	rows := regexp.MustCompile("(?m)^\\| (`[A-Z_]+`) \\| (`[^`]*`)? *\\| (yes)?").FindAllStringSubmatch(reference.String(), -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		variable, value := row[1], row[2]
		switch {
		case row[3] != "":
			value = "required"
		case value == "":
			value = "optional"
		}
		require.Contains(t, string(readme), "| "+variable+" | "+value+" |")
	}
}

func TestCheckRefuses(t *testing.T) {
	good := []string{
		"SVC_DATABASE_URL=postgres://svc:word@127.0.0.1/svc", "SVC_ENGINE_URL=http://127.0.0.1:4001",
		"SVC_ENGINE_SHARED_SECRET=" + strings.Repeat("e", 16), "AUTH_URL=https://svc.example.com",
		"AUTH_SECRET=" + strings.Repeat("a", 32), "SVC_VAULT_MASTER_KEY=" + strings.Repeat("v", 32),
	}
	for name, c := range map[string]struct {
		more []string
		want string // in the error; "" for none
	}{
		"production":                     {nil, ""},
		"no limit":                       {[]string{"SVC_RATE_LIMIT=0"}, ""},
		"demonstration people in public": {[]string{"SVC_DEV_SIGN_IN=true"}, "SVC_DEV_SIGN_IN"},
		"demonstration people at home":   {[]string{"SVC_DEV_SIGN_IN=true", "AUTH_URL=http://127.0.0.1:4000"}, ""},
		"a code host of a kind unknown":  {[]string{"SVC_OAUTH_KIND=gitlab"}, "SVC_OAUTH_KIND"},
		"a client without a secret":      {[]string{"SVC_OAUTH_CLIENT_ID=svc"}, "SVC_OAUTH_CLIENT_SECRET"},
		"a round before the last":        {[]string{"SVC_INTEGRITY_INTERVAL=-1s"}, "SVC_INTEGRITY_INTERVAL"},
		"a limit below nothing":          {[]string{"SVC_RATE_LIMIT=-1"}, "SVC_RATE_LIMIT"},
		"fewer workspaces than none":     {[]string{"SVC_DAILY_WORKSPACES=-1"}, "SVC_DAILY_WORKSPACES"},
		"fewer invitations than none":    {[]string{"SVC_DAILY_INVITATIONS=-1"}, "SVC_DAILY_INVITATIONS"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Parse[Config](append(good, c.more...))
			require.NoError(t, err)
			if err = cfg.check(); c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}
