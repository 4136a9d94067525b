package pgserver_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"svc/dev/pgserver"
	"svc/test/address"
)

func TestStopAndStartKeepsDataAndPort(t *testing.T) {
	dir := folder(t)
	server := start(t, pgserver.Config{Dir: dir, Addr: address.Free(t)})
	before := server.URL("postgres")
	execute(t, server, "create table kept as select 7 as n")
	require.NoError(t, server.Stop())
	<-server.Done()
	require.NoError(t, server.Stop(), "a second stop does nothing")

	server = start(t, pgserver.Config{Dir: dir})
	require.Equal(t, before, server.URL("postgres"))
	require.Equal(t, "7", value(t, server, "select n::text from kept"))
}

func TestKillThenStartRecovers(t *testing.T) {
	dir := folder(t)
	server := start(t, pgserver.Config{Dir: dir, Durable: true})
	execute(t, server, "create table kept as select 7 as n")
	pids := processes(t, dir)
	require.NotEmpty(t, pids)
	require.NoError(t, server.Kill())
	<-server.Done()
	require.Empty(t, processes(t, dir))
	require.FileExists(t, filepath.Join(dir, "data", "postmaster.pid"), "a killed server leaves it")

	server = start(t, pgserver.Config{Dir: dir, Durable: true})
	require.Equal(t, "7", value(t, server, "select n::text from kept"))
}

func TestStalePidFileOfAnotherProgramBlocksNothing(t *testing.T) {
	dir := folder(t)
	require.NoError(t, start(t, pgserver.Config{Dir: dir}).Kill())
	pid := strconv.Itoa(os.Getppid()) // running, but no server
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(pid+"\n"), 0o600))
	start(t, pgserver.Config{Dir: dir})
}

func TestSettings(t *testing.T) {
	server := start(t, pgserver.Config{Dir: folder(t)})
	for setting, want := range map[string]string{
		"server_encoding":          "UTF8",
		"data_checksums":           "on",
		"listen_addresses":         "127.0.0.1",
		"max_connections":          "1000",
		"TimeZone":                 "UTC",
		"fsync":                    "off",
		"shared_preload_libraries": "",
	} {
		require.Equal(t, want, value(t, server, "show "+setting), setting)
	}
	require.Equal(t, "Z,a,é", value(t, server, `select string_agg(w, ',' order by w) from unnest('{a,é,Z}'::text[]) w`),
		"text is ordered by its bytes")
	require.Contains(t, server.Programs(), "postgres (PostgreSQL)")
}

func TestDurableSettings(t *testing.T) {
	server := start(t, pgserver.Config{Dir: folder(t), Durable: true})
	require.Equal(t, "200", value(t, server, "show max_connections"))
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		require.Equal(t, "on", value(t, server, "show "+setting), setting)
	}
}

func TestConnectionsRequirePassword(t *testing.T) {
	dir := folder(t)
	server := start(t, pgserver.Config{Dir: dir})
	config, err := pgx.ParseConfig(server.URL("postgres"))
	require.NoError(t, err)
	config.Password = "wrong"
	_, err = pgx.ConnectConfig(t.Context(), config)
	require.ErrorContains(t, err, "password authentication failed")
	info, err := os.Stat(filepath.Join(dir, "password"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// Earlier versions left an empty file if they were killed while they wrote it, or the disk was full.
func TestEmptyPasswordFileIsReplaced(t *testing.T) {
	dir := folder(t)
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), nil, 0o600))
	server := start(t, pgserver.Config{Dir: dir})
	require.Equal(t, "1", value(t, server, "select '1'"))
	require.NoError(t, server.Stop())

	require.NoError(t, os.Truncate(filepath.Join(dir, "password"), 0))
	_, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	require.ErrorContains(t, err, "password is gone or empty but the cluster is there")
}

func TestSecondStartOnAFolderNamesTheHolder(t *testing.T) {
	dir := folder(t)
	start(t, pgserver.Config{Dir: dir})
	_, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	require.ErrorContains(t, err, "in use by process "+strconv.Itoa(os.Getpid()))
	require.ErrorContains(t, err, dir)
}

func TestPortInUseIsNamed(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	dir := folder(t)
	_, err = pgserver.Start(t.Context(), pgserver.Config{Dir: dir, Addr: listener.Addr().String()})
	require.ErrorContains(t, err, listener.Addr().String()+" is in use")
	start(t, pgserver.Config{Dir: dir}) // the folder is unlocked; the server takes another port
}

func TestStartUsesOtherPortIfLastIsTaken(t *testing.T) {
	dir := folder(t)
	server := start(t, pgserver.Config{Dir: dir})
	config, err := pgx.ParseConfig(server.URL("postgres"))
	require.NoError(t, err)
	require.NoError(t, server.Stop())
	listener, err := net.Listen("tcp4", net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
	if err == nil { // otherwise another program has taken it
		defer listener.Close()
	}
	server = start(t, pgserver.Config{Dir: dir})
	require.Equal(t, "1", value(t, server, "select '1'"))
}

func TestAddressOfOtherMachinesIsRefused(t *testing.T) {
	_, err := pgserver.Start(t.Context(), pgserver.Config{Dir: folder(t), Addr: "0.0.0.0:0"})
	require.ErrorContains(t, err, "127.0.0.1 only")
}

func TestFailedStartShowsTheLog(t *testing.T) {
	dir := folder(t)
	require.NoError(t, start(t, pgserver.Config{Dir: dir}).Stop())
	require.NoError(t, os.Remove(filepath.Join(dir, "data", "global", "pg_control")))
	_, err := pgserver.Start(t.Context(), pgserver.Config{Dir: dir})
	require.ErrorContains(t, err, "could not find the database system")
}

func TestDoneWhenTheServerEndsByItself(t *testing.T) {
	dir := folder(t)
	server := start(t, pgserver.Config{Dir: dir})
	require.NoError(t, syscall.Kill(postmaster(t, dir), syscall.SIGQUIT))
	select {
	case <-server.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("not done")
	}
	require.NoError(t, server.Stop())
	start(t, pgserver.Config{Dir: dir})
}

func TestCancelledStart(t *testing.T) {
	dir := folder(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := pgserver.Start(ctx, pgserver.Config{Dir: dir})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, processes(t, dir))
}
