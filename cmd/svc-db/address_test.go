package main

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/config"
)

// parts describes the parts of an address.
type parts struct {
	host           string
	port           uint16
	name           string
	user, password string
}

func TestAddresses(t *testing.T) {
	env := []string{"SVC_DB_HOST=env", "SVC_DB_USER=eu", "SVC_DB_PASSWORD=ep"}
	for name, test := range map[string]struct {
		environ []string
		args    []string
		want    parts
	}{
		"environment":     {env, nil, parts{"env", 5432, "svc", "eu", "ep"}},
		"all of it":       {append(env, "SVC_DB_PORT=6000", "SVC_DB_NAME=n"), nil, parts{"env", 6000, "n", "eu", "ep"}},
		"flags before it": {env, []string{"-user=fu", "-password=fp"}, parts{"env", 5432, "svc", "fu", "fp"}},
		"socket":          {append(env, "SVC_DB_HOST=/run/pg sql"), nil, parts{"/run/pg sql", 5432, "svc", "eu", "ep"}},
		"IPv6":            {append(env, "SVC_DB_HOST=::1"), nil, parts{"::1", 5432, "svc", "eu", "ep"}},
		"odd characters": {append(env, "SVC_DB_NAME=a/b?c", "SVC_DB_USER=u@h:1", "SVC_DB_PASSWORD=p+ &=%/@#?'\\é"), nil,
			parts{"env", 5432, "a/b?c", "u@h:1", "p+ &=%/@#?'\\é"}},
		"postgres":          {nil, []string{"-url=postgres://u:p@h:6000/db"}, parts{"h", 6000, "db", "u", "p"}},
		"postgresql":        {nil, []string{"-url=postgresql://u:p@h/db"}, parts{"h", 5432, "db", "u", "p"}},
		"URL before it":     {append(env, "SVC_DB_PORT=6000"), []string{"-url=postgres://u:p@h/db"}, parts{"h", 5432, "db", "u", "p"}},
		"URL without user":  {env, []string{"-url=postgres://h/db"}, parts{"h", 5432, "db", "eu", "ep"}},
		"URL without word":  {env, []string{"-url=postgres://u@h/db"}, parts{"h", 5432, "db", "u", "ep"}},
		"flags before URL":  {nil, []string{"-url=postgres://u:p@h/db", "-user=fu", "-password=f p"}, parts{"h", 5432, "db", "fu", "f p"}},
		"percent-encoded":   {nil, []string{"-url=postgres://u%40x:p%2F%3D%26@h/db%20x"}, parts{"h", 5432, "db x", "u@x", "p/=&"}},
		"user as parameter": {nil, []string{"-url=postgres://h/db?user=u&password=p+q"}, parts{"h", 5432, "db", "u", "p+q"}},
		"JDBC":              {nil, []string{"-url=jdbc:postgresql://h:6000/db?user=u&password=p"}, parts{"h", 6000, "db", "u", "p"}},
		"JDBC, odd word": {nil, []string{"-url=jdbc:postgresql://h/db?user=u&password=a%26b=c@d+e"},
			parts{"h", 5432, "db", "u", "a&b=c@d e"}},
		"JDBC, flags":         {nil, []string{"-url=jdbc:postgresql://h/db", "-user=fu", "-password=fp"}, parts{"h", 5432, "db", "fu", "fp"}},
		"JDBC, no parameters": {env, []string{"-url=jdbc:postgresql://h/db?"}, parts{"h", 5432, "db", "eu", "ep"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, err := config.Parse[environment](test.environ)
			require.NoError(t, err)
			o, err := parseOptions(test.args)
			require.NoError(t, err)
			url, err := o.address(env)
			require.NoError(t, err)
			cfg, err := invocation{url: url}.connConfig()
			require.NoError(t, err)
			require.Equal(t, test.want, parts{cfg.Host, cfg.Port, cfg.Database, cfg.User, cfg.Password})
		})
	}
}

func TestParametersOfAnAddress(t *testing.T) {
	o := options{url: "jdbc:postgresql://h/db?ApplicationName=me&currentSchema=other&sslmode=disable&connectTimeout=3"}
	url, err := o.address(environment{})
	require.NoError(t, err)
	cfg, err := invocation{url: url}.connConfig()
	require.NoError(t, err)
	require.Equal(t, "me", cfg.RuntimeParams["application_name"])
	require.Equal(t, "other", cfg.RuntimeParams["search_path"])
	require.Nil(t, cfg.TLSConfig)
	require.Equal(t, "3s", cfg.ConnectTimeout.String())
}

func TestMissingAddress(t *testing.T) {
	const message = "ERROR: Unable to connect to the database. Configure the url, user and password!\nNot set: "
	for missing, environ := range map[string][]string{
		"SVC_DB_HOST, SVC_DB_USER, SVC_DB_PASSWORD.": nil,
		"SVC_DB_HOST.":     {"SVC_DB_USER=u", "SVC_DB_PASSWORD=" + marker},
		"SVC_DB_USER.":     {"SVC_DB_HOST=h", "SVC_DB_PASSWORD=" + marker},
		"SVC_DB_PASSWORD.": {"SVC_DB_HOST=h", "SVC_DB_USER=u", "SVC_DB_PASSWORD="},
	} {
		r := runHere(t, environ)
		require.Equal(t, 1, r.status)
		require.Contains(t, r.stderr, message+missing)
	}
}

func TestMalformedPort(t *testing.T) {
	r := runHere(t, []string{"SVC_DB_HOST=h", "SVC_DB_USER=u", "SVC_DB_PASSWORD=" + marker, "SVC_DB_PORT=" + marker})
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, "SVC_DB_PORT is malformed")
}

// An unescaped character in a password may move the password into any part of the address. Errors
// never show it.
func TestMalformedAddressIsNotShown(t *testing.T) {
	for _, url := range []string{
		marker,
		"mysql://u:" + marker + "@h/db",
		"jdbc:mysql://h/db?password=" + marker,
		"host=h password=" + marker,
		"postgres://u:12/" + marker + "@127.0.0.1/db",
		"postgres://u:" + marker + "/x@127.0.0.1/db",
		"postgres://u:p@" + marker + "@127.0.0.1/db",
		"postgres://u:%zz" + marker + "@127.0.0.1/db",
		"postgres://u:p@127.0.0.1:" + marker + "/db",
		"postgres://127.0.0.1/db?password=a&" + marker,
		"postgres://127.0.0.1/db?sslmode=" + marker,
		"jdbc:postgresql://127.0.0.1/db?user=u&password=a&" + marker,
		"jdbc:postgresql://127.0.0.1/db?user=u&password=%zz" + marker,
		"postgres://u:" + marker + "@127.0.0.1/db?connect_timeout=soon",
	} {
		r := runHere(t, nil, "-url="+url)
		require.Equal(t, 1, r.status)
		require.Contains(t, r.stderr, "ERROR: the database address cannot be read; want postgres://", url)
	}
	r := runHere(t, nil, "-url=postgres://u:"+marker+"@127.0.0.1/db?sslmode=verify-full&sslrootcert=/no/such/file")
	require.Contains(t, r.stderr, "/no/such/file: no such file or directory")
}

func TestUnreachableDatabase(t *testing.T) {
	const port = "1" // no server uses it
	for _, url := range []string{
		"postgres://u:" + marker + "@127.0.0.1:" + port + "/svc",
		"postgres://u:p%3F#" + marker + "@127.0.0.1:" + port + "/svc",
		"postgres://u:p?" + marker + "@127.0.0.1:" + port + "/svc",
		"jdbc:postgresql://127.0.0.1:" + port + "/svc?user=u&password=" + marker,
	} {
		r := runHere(t, nil, "-url="+url)
		require.Equal(t, result{status: 1, stderr: "ERROR: connect to the database at 127.0.0.1:" + port + ": connect: connection refused\n"}, r)
	}

	r := runHere(t, nil, "-url=postgres://127.0.0.1:"+port+",localhost:"+port+"/svc", "-password="+marker, "-connect-retries=1")
	require.Equal(t, 1, r.status)
	places := "connect to the database at 127.0.0.1:" + port + ", localhost:" + port + ": connect: connection refused"
	require.Equal(t, "WARNING: "+places+". Retrying in 1 sec...\n", r.stdout)
	require.Equal(t, "ERROR: "+places+"\n", r.stderr)
}

func TestServerRefuses(t *testing.T) {
	d := newDatabase(t)
	environ := append(d.environ, "SVC_DB_NAME=nosuchdatabase")
	r := runHere(t, environ).requireHidden(t, d.password)
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, net.JoinHostPort(d.cfg.Host, strconv.Itoa(int(d.cfg.Port))))
	require.Contains(t, r.stderr, `database "nosuchdatabase" does not exist (SQLSTATE 3D000)`)
}

func TestEveryAddressFormConnects(t *testing.T) {
	d := newDatabase(t)
	place := environment{Host: d.cfg.Host, Port: d.cfg.Port, Name: d.cfg.Database}.hostPortName()
	login := "user=" + escape(d.cfg.User) + "&password=" + escape(d.password)
	for _, args := range [][]string{
		{"info", "-url=postgres://" + place + "?" + login},
		{"info", "-url=postgresql://" + escape(d.cfg.User) + ":" + escape(d.password) + "@" + place},
		{"info", "-url=jdbc:postgresql://" + place + "?" + login},
		{"-url=jdbc:postgresql://" + place, "info", "-user", d.cfg.User, "-password", d.password},
	} {
		r := runHere(t, nil, args...).requireHidden(t, d.password)
		require.Zero(t, r.status, r.stderr)
		require.True(t, strings.HasPrefix(r.stdout, "Database: postgresql://"), r.stdout)
		require.Contains(t, r.stdout, "Schema version: << Empty Schema >>")
	}
}
