package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/config"
)

var validEnviron = []string{
	"SVC_DATABASE_URL=postgres://svc:word@127.0.0.1/svc", "SVC_ENGINE_URL=http://127.0.0.1:4001",
	"SVC_ENGINE_SHARED_SECRET=" + strings.Repeat("e", 16), "AUTH_URL=https://svc.example.com",
	"AUTH_SECRET=" + strings.Repeat("a", 32), "SVC_VAULT_MASTER_KEY=" + strings.Repeat("v", 32),
}

var farmVariables = []string{
	"SVC_FARM_PUBLIC_URL=https://farm.example.com:4443/", "SVC_FARM_RELEASES_DIR=/var/lib/svc/releases",
	"SVC_FARM_RELEASE_KEYS=ed25519:" + strings.Repeat("A", 43) + "=,ed25519:" + strings.Repeat("B", 42) + "A=",
	"SVC_FARM_CLIENT_CERT_HEADER=x-svc-client-cert", "SVC_FARM_TRUSTED_PROXIES=10.0.0.7",
	"SVC_ARTIFACT_STORE=/var/lib/svc/artifacts", "SVC_ARTIFACT_MAX_JOB_BYTES=1048576",
}

// The environment file of OPERATIONS.md for one host is what the service starts with.
func TestOneHostHasAWholeConfiguration(t *testing.T) {
	manual, err := os.ReadFile("../../OPERATIONS.md")
	require.NoError(t, err)
	file := regexp.MustCompile("(?s)## One host\n.*?```sh\n(.*?)```").FindSubmatch(manual)
	require.NotNil(t, file)
	lines := strings.ReplaceAll(string(file[1]), "=SECRET\n", "="+strings.Repeat("s", 44)+"\n") // as openssl rand -base64 32 makes them
	environ := strings.Fields(lines)
	require.Greater(t, len(environ), 10)
	cfg, err := config.Parse[Config](environ)
	require.NoError(t, err)
	require.NoError(t, cfg.check())
	require.False(t, cfg.farmOn())
	require.NotEmpty(t, cfg.providers(), "people can sign in")
}

func TestAnyFarmVariableTurnsTheFarmOn(t *testing.T) {
	for _, c := range []struct {
		variables []string
		on        bool
	}{
		{nil, false}, {farmVariables, true}, {farmVariables[:1], true}, {farmVariables[1:2], true}, {farmVariables[2:3], true},
		{farmVariables[3:4], true}, {farmVariables[4:5], true}, {farmVariables[5:], false},
		{[]string{"SVC_FARM_CA_FILE=/etc/svc/ca.pem"}, true},
	} {
		cfg, err := config.Parse[Config](slices.Concat(validEnviron, c.variables))
		require.NoError(t, err)
		require.Equal(t, c.on, cfg.farmOn(), c.variables)
	}
}

func TestWarnsOfUntrustedCertificateHeader(t *testing.T) {
	for _, c := range []struct {
		variables []string
		warned    bool
	}{{nil, false}, {farmVariables[3:4], true}, {farmVariables[3:5], false}, {farmVariables[4:5], false}} {
		cfg, err := config.Parse[Config](slices.Concat(validEnviron, c.variables))
		require.NoError(t, err)
		var said bytes.Buffer
		cfg.Farm.warn(slog.New(slog.NewTextHandler(&said, nil)))
		require.Equal(t, c.warned, strings.Contains(said.String(), "SVC_FARM_TRUSTED_PROXIES is not"), c.variables)
	}
}

func TestEveryDailyLimitHasAVariable(t *testing.T) {
	cfg, err := config.Parse[Config](validEnviron)
	require.NoError(t, err)
	limits := reflect.ValueOf(cfg.daily(nil))
	for i := range limits.NumField() {
		if limits.Field(i).Kind() == reflect.Int {
			require.Positive(t, limits.Field(i).Int(), limits.Type().Field(i).Name)
		}
	}
}

func TestCheckRejects(t *testing.T) {
	for name, c := range map[string]struct {
		more []string
		want string // in the error; "" for none
	}{
		"production":                     {nil, ""},
		"no limit":                       {[]string{"SVC_RATE_LIMIT=0"}, ""},
		"demonstration people in public": {[]string{"SVC_DEV_SIGN_IN=true"}, "SVC_DEV_SIGN_IN"},
		"demonstration people at home":   {[]string{"SVC_DEV_SIGN_IN=true", "AUTH_URL=http://127.0.0.1:4000"}, ""},
		"a path":                         {[]string{"AUTH_URL=http://127.0.0.1:3000/path"}, "AUTH_URL is malformed: want a scheme"},
		"a person":                       {[]string{"AUTH_URL=http://user:secret@127.0.0.1"}, "AUTH_URL is malformed: want a scheme"},
		"a host in another script":       {[]string{"AUTH_URL=https://bücher.example"}, "AUTH_URL is malformed: want its host in ASCII"},
		"a host that stands for one":     {[]string{"AUTH_URL=https://xn--bcher-kva.example"}, ""},
		"a code host of a kind unknown":  {[]string{"SVC_OAUTH_KIND=gitlab"}, "SVC_OAUTH_KIND"},
		"a code host with a password":    {[]string{"SVC_OAUTH_URL=https://bot:word@ghe.example"}, "SVC_OAUTH_URL is malformed"},
		"a code host with a token":       {[]string{"SVC_OAUTH_URL=https://word@ghe.example/git"}, "SVC_OAUTH_URL is malformed"},
		"a code host with a query":       {[]string{"SVC_OAUTH_URL=https://ghe.example/?token=word"}, "SVC_OAUTH_URL is malformed"},
		"a code host below a path":       {[]string{"SVC_OAUTH_URL=https://ghe.example/git/"}, ""},
		"an interface with a password":   {[]string{"SVC_OAUTH_API_URL=https://bot:word@ghe.example"}, "SVC_OAUTH_API_URL is malformed"},
		"an interface with a query":      {[]string{"SVC_OAUTH_API_URL=https://ghe.example/?a=b"}, "SVC_OAUTH_API_URL is malformed"},
		"an interface below a path":      {[]string{"SVC_OAUTH_API_URL=https://ghe.example/api/v3"}, ""},
		"a client without a secret":      {[]string{"SVC_OAUTH_CLIENT_ID=svc"}, "SVC_OAUTH_CLIENT_SECRET"},
		"a round before the last":        {[]string{"SVC_INTEGRITY_INTERVAL=-1s"}, "SVC_INTEGRITY_INTERVAL"},
		"rounds without a pause":         {[]string{"SVC_INTEGRITY_INTERVAL=999ms"}, "SVC_INTEGRITY_INTERVAL"},
		"a limit below nothing":          {[]string{"SVC_RATE_LIMIT=-1"}, "SVC_RATE_LIMIT"},
		"fewer workspaces than none":     {[]string{"SVC_DAILY_WORKSPACES=-1"}, "SVC_DAILY_WORKSPACES"},
		"fewer invitations than none":    {[]string{"SVC_DAILY_INVITATIONS=-1"}, "SVC_DAILY_INVITATIONS"},
		"fewer per address than none":    {[]string{"SVC_DAILY_INVITATIONS_PER_ADDRESS=-1"}, "SVC_DAILY_INVITATIONS_PER_ADDRESS"},
		"fewer accounts than none":       {[]string{"SVC_DAILY_SERVICE_ACCOUNTS=-1"}, "SVC_DAILY_SERVICE_ACCOUNTS"},
		"fewer rotations than none":      {[]string{"SVC_DAILY_ROTATIONS=-1"}, "SVC_DAILY_ROTATIONS"},
		"fewer enrollments than none":    {[]string{"SVC_DAILY_ENROLLMENTS=-1"}, "SVC_DAILY_ENROLLMENTS"},
		"fewer changes than none":        {[]string{"SVC_DAILY_CHANGES=-1"}, "SVC_DAILY_CHANGES"},
		"fewer sign-ins than none":       {[]string{"SVC_DAILY_SIGN_INS=-1"}, "SVC_DAILY_SIGN_INS"},
		"smaller jobs than none":         {[]string{"SVC_DAILY_JOB_MEBIBYTES=-1"}, "SVC_DAILY_JOB_MEBIBYTES"},
		"smaller artifacts than none":    {[]string{"SVC_DAILY_ARTIFACT_MEBIBYTES=-1"}, "SVC_DAILY_ARTIFACT_MEBIBYTES"},
		"more logs than can be counted":  {[]string{"SVC_DAILY_LOG_MEBIBYTES=1048577"}, "SVC_DAILY_LOG_MEBIBYTES"},
		"a farm":                         {farmVariables, ""},
		"a farm below a path":            {[]string{"SVC_FARM_PUBLIC_URL=https://farm.example/a"}, "SVC_FARM_PUBLIC_URL is malformed"},
		"a farm with a query":            {[]string{"SVC_FARM_PUBLIC_URL=https://farm.example/?a=b"}, "SVC_FARM_PUBLIC_URL is malformed"},
		"a farm with a password":         {[]string{"SVC_FARM_PUBLIC_URL=https://a:b@farm.example"}, "SVC_FARM_PUBLIC_URL is malformed"},
		"a farm in another script":       {[]string{"SVC_FARM_PUBLIC_URL=https://bücher.example"}, "SVC_FARM_PUBLIC_URL is malformed"},
		"a release key of another kind":  {[]string{"SVC_FARM_RELEASE_KEYS=rsa:AAAA"}, "SVC_FARM_RELEASE_KEYS is malformed"},
		"a short release key":            {[]string{"SVC_FARM_RELEASE_KEYS=ed25519:AAAA"}, "SVC_FARM_RELEASE_KEYS is malformed"},
		"logs for ever":                  {[]string{"SVC_JOB_LOG_DAYS=0"}, ""},
		"logs for less than nothing":     {[]string{"SVC_JOB_LOG_DAYS=-1"}, "SVC_JOB_LOG_DAYS is malformed"},
		"leases of 20 s":                 {[]string{"SVC_JOB_LEASE_SECONDS=20"}, ""},
		"leases that are too short":      {[]string{"SVC_JOB_LEASE_SECONDS=19"}, "SVC_JOB_LEASE_SECONDS is malformed"},
		"leases that are too long":       {[]string{"SVC_JOB_LEASE_SECONDS=3601"}, "SVC_JOB_LEASE_SECONDS is malformed"},
		"logs for longer than time":      {[]string{"SVC_JOB_LOG_DAYS=200000"}, "SVC_JOB_LOG_DAYS is malformed"},
		"artifacts somewhere":            {[]string{"SVC_ARTIFACT_STORE=artifacts"}, "SVC_ARTIFACT_STORE is malformed"},
		"artifacts of nothing":           {[]string{"SVC_ARTIFACT_MAX_JOB_BYTES=0"}, "SVC_ARTIFACT_MAX_JOB_BYTES is malformed"},
		"artifacts without end":          {[]string{"SVC_ARTIFACT_MAX_JOB_BYTES=1099511627777"}, "SVC_ARTIFACT_MAX_JOB_BYTES is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := config.Parse[Config](slices.Concat(validEnviron, c.more))
			require.NoError(t, err)
			if err = cfg.check(); c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

func TestGatewayCAFile(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	path := filepath.Join(t.TempDir(), "ca.pem")
	load := func(text []byte) ([]*x509.Certificate, error) {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		return Config{Farm: FarmConfig{CAFile: path}}.gatewayCA()
	}
	found, err := load(slices.Concat(key, certificate, []byte("# the next one\n"), certificate))
	require.NoError(t, err)
	require.Equal(t, []*x509.Certificate{server.Certificate(), server.Certificate()}, found)
	_, err = load(key)
	require.EqualError(t, err, "SVC_FARM_CA_FILE: "+path+" has 0 certificates in PEM, want 1 to 4")
	_, err = load(bytes.Repeat(certificate, 5))
	require.EqualError(t, err, "SVC_FARM_CA_FILE: "+path+" has 5 certificates in PEM, want 1 to 4")
	_, err = load(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("short")}))
	require.ErrorContains(t, err, "SVC_FARM_CA_FILE: "+path+": x509: ")
	require.NoError(t, os.Remove(path))
	_, err = Config{Farm: FarmConfig{CAFile: path}}.gatewayCA()
	require.ErrorContains(t, err, "SVC_FARM_CA_FILE: open "+path)
	found, err = Config{}.gatewayCA()
	require.NoError(t, err)
	require.Empty(t, found)
}

// Browsers normalize addresses, whatever form an operator writes.
func TestAddressesAreNormalizedLikeBrowsers(t *testing.T) {
	for _, c := range []struct{ auth, oauth, origin, api string }{
		{"https://svc.example.com", "https://github.com", "https://svc.example.com", "https://api.github.com"},
		{"HTTPS://Svc.Example.COM/", "https://GitHub.com/", "https://svc.example.com", "https://api.github.com"},
		{"https://svc.example.com:443", "https://github.com:443", "https://svc.example.com", "https://api.github.com"},
		{"http://LOCALHOST:80", "http://github.com", "http://localhost", "http://github.com/api/v3"},
		{"http://svc.example.com:443", "https://git.example.com:8443", "http://svc.example.com:443", "https://git.example.com:8443/api/v3"},
		{"http://[::1]:4000", "https://github.com", "http://[::1]:4000", "https://api.github.com"},
	} {
		cfg, err := config.Parse[Config](append(slices.Clone(validEnviron), "AUTH_URL="+c.auth, "SVC_OAUTH_URL="+c.oauth))
		require.NoError(t, err)
		require.NoError(t, cfg.check())
		require.Equal(t, c.origin, cfg.origin())
		require.Equal(t, c.api, cfg.apiURL())
	}
}
