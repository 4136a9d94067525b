package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"svc/config"
)

func TestLinesAreLabelled(t *testing.T) {
	var b bytes.Buffer
	o := &output{w: &b}
	rest, engine := o.named("svc-rest"), o.named("svc-engine")
	fmt.Fprint(rest, "one\ntw")
	fmt.Fprint(engine, "three\n")
	fmt.Fprint(rest, "o\n\nfour")
	rest.flush()
	rest.flush()
	require.Equal(t, "svc-rest   │ one\nsvc-engine │ three\nsvc-rest   │ two\nsvc-rest   │ \nsvc-rest   │ four\n", b.String())

	b.Reset()
	fmt.Fprint(rest, strings.Repeat("x", maxLine+1))
	require.Contains(t, b.String(), "xx\n", "a line without an end is cut")

	b.Reset()
	o.colour = true
	fmt.Fprintln(o.named("svc-rest"), "one")
	require.Equal(t, "\x1b[32msvc-rest   │ \x1b[0mone\n", b.String())
	for _, name := range append(programs, "svc") {
		require.NotZero(t, colours[name], name)
	}
}

func TestQuietOutputShowsWarningsAndErrors(t *testing.T) {
	var shown, logged bytes.Buffer
	o := &output{w: &shown, colour: true, quiet: true}
	o.logTo(&logged)
	rest := o.named("svc-rest")
	for _, line := range []string{
		`time=2026-11-20T12:00:00Z level=INFO msg=request path=/level=ERROR`, `time=2026-11-20T12:00:00Z level=WARN msg=late`,
		`{"time":"2026-11-20T12:00:00Z","level":"ERROR","msg":"broken"}`, `{"time":"2026-11-20T12:00:00Z","level":"INFO","msg":"ready"}`,
		"panic: nil",
	} {
		fmt.Fprintln(rest, line)
	}
	fmt.Fprintln(o.named("svc"), "starting")
	require.NotContains(t, shown.String(), "INFO")
	for _, want := range []string{"msg=late\n", `"msg":"broken"}` + "\n", "starting\n"} {
		require.Contains(t, shown.String(), want)
		require.Contains(t, logged.String(), want)
	}
	require.Contains(t, logged.String(), "svc-rest   │ panic: nil\n", "without colours")

	shown.Reset()
	for i := range maxHidden - 1 {
		fmt.Fprintln(rest, "line", i)
	}
	rest.reveal()
	require.Equal(t, maxHidden, strings.Count(shown.String(), "\n"))
	require.Contains(t, shown.String(), "panic: nil\n")
	shown.Reset()
	rest.reveal()
	require.Empty(t, shown.String(), "it is shown once")
}

func TestLogIsBounded(t *testing.T) {
	f, err := openFolder(t.TempDir())
	require.NoError(t, err)
	defer f.close()
	write := func(text string) {
		t.Helper()
		log, err := f.openLog()
		require.NoError(t, err)
		_, err = log.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, log.Close())
	}
	read := func(name string) string {
		t.Helper()
		require.Equal(t, os.FileMode(0o600), mode(t, f.file(name)))
		text, err := os.ReadFile(f.file(name))
		require.NoError(t, err)
		return string(text)
	}
	write("one\n")
	write("two\n")
	require.Equal(t, "one\ntwo\n", read(logName), "it is continued")
	require.NoError(t, os.Truncate(f.file(logName), maxLog-2))
	write("three\n")
	require.Equal(t, "three\n", read(logName))
	require.Len(t, read(logName+".1"), maxLog-2)
	f.close()
	again, err := openFolder(f.path)
	require.NoError(t, err, "its log belongs to the folder")
	again.close()
}

func TestOutputIsPlainUnlessATerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer f.Close()
	require.False(t, newOutput(f).colour)
}

func TestFolderIsClosedToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, os.MkdirAll(path, 0o755))
	f, err := openFolder(path)
	require.NoError(t, err)
	defer f.close()
	require.Equal(t, os.FileMode(0o700), mode(t, path))
	_, err = f.secrets()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), mode(t, f.file("secrets.json")))
}

func TestFolderWithOtherContentsIsRefused(t *testing.T) {
	others := func(path string, err error) error { return errors.Join(err, os.Mkdir(filepath.Join(path, "x"), 0o755)) }
	for name, fill := range map[string]func(path string) error{
		"a file":   func(path string) error { return os.WriteFile(filepath.Join(path, "notes.txt"), []byte("mine"), 0o644) },
		"a folder": func(path string) error { return os.Mkdir(filepath.Join(path, "postgresql"), 0o755) },
		"a lock and more": func(path string) error {
			return errors.Join(os.WriteFile(filepath.Join(path, "lock"), nil, 0o644), os.Mkdir(filepath.Join(path, "x"), 0o755))
		},
		"secrets for all": func(path string) error {
			return others(path, os.WriteFile(filepath.Join(path, "secrets.json"), []byte("{}"), 0o644))
		},
		"secrets that lie": func(path string) error { return others(path, os.Mkdir(filepath.Join(path, "secrets.json"), 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "shared")
			require.NoError(t, os.Mkdir(path, 0o755))
			require.NoError(t, fill(path))
			before, err := os.ReadDir(path)
			require.NoError(t, err)
			_, err = openFolder(path)
			require.EqualError(t, err, "SVC_DATA_DIR: "+path+" is neither empty nor a data folder of svc; name another")
			require.Equal(t, os.FileMode(0o755), mode(t, path))
			after, err := os.ReadDir(path)
			require.NoError(t, err)
			require.Equal(t, len(before), len(after))
		})
	}
}

func TestFolderIsReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	f, err := openFolder(path)
	require.NoError(t, err)
	f.close()
	require.NoError(t, os.WriteFile(f.file("secrets.json.1"), nil, 0o600))
	f, err = openFolder(path) // as after an svc that was stopped while it wrote secrets
	require.NoError(t, err)
	_, err = f.secrets()
	require.NoError(t, err)
	f.close()
	require.NoError(t, os.WriteFile(f.file("notes.txt"), []byte("mine"), 0o644))
	require.NoError(t, os.Chmod(path, 0o755))
	f, err = openFolder(path)
	require.NoError(t, err)
	defer f.close()
	require.Equal(t, os.FileMode(0o700), mode(t, path))
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Mode().Perm()
}

func TestLockNamesItsHolder(t *testing.T) {
	path := t.TempDir()
	f, err := openFolder(path)
	require.NoError(t, err)
	_, err = openFolder(path)
	require.EqualError(t, err, "svc runs in "+path+" already, as process "+strconv.Itoa(os.Getpid()))
	f.close()
	f, err = openFolder(path)
	require.NoError(t, err)
	f.close()
}

func TestSecretsAreMadeOnce(t *testing.T) {
	f, err := openFolder(t.TempDir())
	require.NoError(t, err)
	defer f.close()
	first, err := f.secrets()
	require.NoError(t, err)
	made := map[string]bool{first.EngineSharedSecret: true, first.AuthSecret: true, first.VaultMasterKey: true, first.OAuthClientSecret: true}
	require.Len(t, made, 4, "no two are the same")
	for secret := range made {
		require.GreaterOrEqual(t, len(secret), 32)
	}
	second, err := f.secrets()
	require.NoError(t, err)
	require.Equal(t, first, second)

	// A missing secret is added, the other one is kept.
	require.NoError(t, f.write("secrets.json", map[string]string{"authSecret": "kept"}))
	third, err := f.secrets()
	require.NoError(t, err)
	require.Equal(t, "kept", third.AuthSecret)
	require.GreaterOrEqual(t, len(third.EngineSharedSecret), 32)
	require.GreaterOrEqual(t, len(third.VaultMasterKey), 32)
	require.GreaterOrEqual(t, len(third.OAuthClientSecret), 32)

	require.NoError(t, os.WriteFile(f.file("secrets.json"), []byte("hunter2"), 0o600))
	_, err = f.secrets()
	require.ErrorContains(t, err, f.file("secrets.json"))
	require.NotContains(t, err.Error(), "hunter2")
}

func TestWriteReplacesWholeFiles(t *testing.T) {
	f, err := openFolder(t.TempDir())
	require.NoError(t, err)
	defer f.close()
	require.NoError(t, os.WriteFile(f.file("dev.json"), []byte("old"), 0o644))
	old, err := os.Open(f.file("dev.json"))
	require.NoError(t, err)
	defer old.Close()

	require.NoError(t, f.write("dev.json", map[string]string{"a": "b&c"}))
	require.Equal(t, os.FileMode(0o600), mode(t, f.file("dev.json")))
	text, err := os.ReadFile(f.file("dev.json"))
	require.NoError(t, err)
	require.Equal(t, "{\n  \"a\": \"b&c\"\n}\n", string(text))
	before := make([]byte, 10)
	n, err := old.Read(before)
	require.NoError(t, err)
	require.Equal(t, "old", string(before[:n]), "a reader of the old file keeps it whole")

	require.Error(t, f.write("dev.json", func() {}))
	left, err := os.ReadDir(f.path)
	require.NoError(t, err)
	require.Len(t, left, 2, "dev.json and lock, nothing half written")
}

func TestClaim(t *testing.T) {
	a, b := config.Addr("127.0.0.1:0"), config.Addr("127.0.0.1:0")
	s, err := claim(t.Context(), listenAddr{"T_A", &a}, listenAddr{"T_B", &b})
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	require.NotContains(t, []config.Addr{a, b}, config.Addr("127.0.0.1:0"))

	_, err = claim(t.Context(), listenAddr{"T_C", &a})
	require.EqualError(t, err, "T_C: the address "+string(a)+" is in use by another program", "it is held")
	s.close("T_A")
	_, err = claim(t.Context(), listenAddr{"T_A", &a}, listenAddr{"T_B", &b})
	require.EqualError(t, err, "T_B: the address "+string(b)+" is in use by another program")
	s.close()
	s, err = claim(t.Context(), listenAddr{"T_A", &a}, listenAddr{"T_B", &b})
	require.NoError(t, err, "all given back")
	s.close()
}

func TestHidePasswords(t *testing.T) {
	for whole, want := range map[string][]string{
		"postgres://svc:p%40ss@db:1/svc?sslmode=require":           {"postgres://svc@db:1/svc?sslmode=require", "SVC_DB_PASSWORD=p@ss"},
		"postgres://db/svc?options=a%20b&password=a&sslpassword=b": {"postgres://db/svc?options=a%20b", "SVC_DB_PASSWORD=a", "PGSSLPASSWORD=b"},
		"postgres:///svc?host=/run/pg&user=svc":                    {"postgres:///svc?host=/run/pg&user=svc", "SVC_DB_PASSWORD="},
	} {
		plain, environ, err := hidePasswords(whole)
		require.NoError(t, err)
		require.Equal(t, want, append([]string{plain}, environ...))
	}
}

// A record collects output, to be read when the program has ended.
type record struct {
	text  bytes.Buffer
	ended error
}

// shell launches a script.
func shell(t *testing.T, script string) (*child, *record) {
	t.Helper()
	r := new(record)
	out := (&output{w: &r.text}).named("sh")
	c, err := launch(exec.Command("sh", "-c", script), "sh", out, func(err error) { r.ended = err })
	require.NoError(t, err)
	t.Cleanup(func() { c.stop(0, nil) })
	return c, r
}

func TestChildReportsExitStatus(t *testing.T) {
	c, r := shell(t, "echo out; echo err >&2; exit 3")
	require.EqualError(t, c.wait(t.Context()), "sh: exit status 3")
	require.EqualError(t, r.ended, "sh ended by itself: exit status 3")
	require.Equal(t, "sh         │ out\nsh         │ err\n", r.text.String())

	c, _ = shell(t, "exit 0")
	require.NoError(t, c.wait(t.Context()))

	c, _ = shell(t, "sleep 1000")
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	require.ErrorIs(t, c.wait(ctx), gone)

	_, err := launch(exec.Command(filepath.Join(t.TempDir(), "none")), "none", nil, nil)
	require.ErrorContains(t, err, "start none: ")
}

// TestStopEndsTheGroup uses a program that ignores SIGTERM and has a child.
func TestStopEndsTheGroup(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	c, _ := shell(t, `trap "" TERM; sleep 1000 & echo $! > '`+ready+`.new'; mv '`+ready+`.new' '`+ready+`'; wait; sleep 1000`)
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(ready)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	}, testTimeout, time.Millisecond)
	require.True(t, alive(pid))

	began := time.Now()
	c.stop(50*time.Millisecond, nil)
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond, "was asked first")
	require.Equal(t, "signal: killed", c.cmd.ProcessState.String())
	require.Eventually(t, func() bool { return !alive(pid) }, testTimeout, time.Millisecond)
}

func TestForcedStopKillsAtOnce(t *testing.T) {
	force := make(chan struct{})
	close(force)
	c, _ := shell(t, `trap "" TERM; sleep 1000; sleep 1000`)
	c.stop(time.Hour, force)
	require.False(t, c.cmd.ProcessState.Success())
}

func TestReadyTimesOutWithReason(t *testing.T) {
	c, _ := shell(t, "sleep 1000")
	calls := 0
	require.NoError(t, c.awaitReady(t.Context(), testTimeout, func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	}))
	never := func(context.Context) error { return errors.New("not yet") }
	require.EqualError(t, c.awaitReady(t.Context(), time.Millisecond, never), "sh is not ready after 1ms: not yet")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("another one ended"))
	require.EqualError(t, c.awaitReady(ctx, testTimeout, never), "another one ended")
}

func TestBannerWithoutDemonstrationData(t *testing.T) {
	text := banner(addresses{RestURL: "http://127.0.0.1:4000", DatabaseURL: "postgres://svc:hunter2@db/svc", demo: noDemo()},
		registeredRunner{}, &folder{path: "/data"})
	require.Contains(t, text, "http://127.0.0.1:4000/api/docs")
	require.Contains(t, text, "/data/dev.json")
	at, err := os.Getwd()
	require.NoError(t, err)
	require.Contains(t, banner(addresses{}, registeredRunner{}, &folder{path: filepath.Join(at, ".svc")}), "  .svc/log/svc.log; ")
	require.Contains(t, text, "without a runner")
	require.NotContains(t, text, "Sign in")
	require.NotContains(t, text, "hunter2")
}

func TestAddressesAsJSON(t *testing.T) {
	text, err := json.Marshal(addresses{RestURL: "http://127.0.0.1:4000", demo: noDemo()})
	require.NoError(t, err)
	require.JSONEq(t, `{"restUrl":"http://127.0.0.1:4000","appUrl":"","farmUrl":"","engineUrl":"","metricsUrl":"","databaseUrl":"",
		"codeHostUrl":"","codeHostToken":"","codeHostReadToken":"",
		"farmCaFile":"","farmReleasesDir":"","people":[],"serviceAccounts":[]}`, string(text))
}

func TestReference(t *testing.T) {
	var b strings.Builder
	require.NoError(t, config.Reference(&b, settings{}))
	for _, variable := range []string{"SVC_DATA_DIR", "SVC_DATABASE_URL", "SVC_ENGINE_ADDR", "SVC_CODEHOST_ADDR", "SVC_REST_ADDR",
		"SVC_METRICS_ADDR", "SVC_GATEWAY_ADDR", "SVC_UI_ADDR"} {
		require.Contains(t, b.String(), "`"+variable+"`")
	}
}
