package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/release"
	"svc/farm/runner"
	"svc/farm/runner/sandbox"
)

// The program under test is this one, also as the first process of a step.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.InitCommand {
		os.Exit(sandbox.Init(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func do(t *testing.T, in string, environ []string, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	p := program{in: strings.NewReader(in), out: &out, environ: environ}
	status = p.main(context.WithoutCancel(t.Context()), args, &err)
	return status, out.String(), err.String()
}

func TestHelpListsCommands(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"help"}, {"-h"}, {"--help"}} {
		status, out, errors := do(t, "", nil, args...)
		require.Zero(t, status)
		require.Empty(t, errors)
		for name := range commands {
			require.Contains(t, out, "\n  "+name)
		}
	}
}

// Each command has a page of its own, with all of its flags.
func TestHelpOfACommandListsItsFlags(t *testing.T) {
	t.Parallel()
	for name, c := range commands {
		status, out, errors := do(t, "", nil, "help", name)
		require.Zero(t, status)
		require.Empty(t, errors)
		require.True(t, strings.HasPrefix(out, "Usage: svc-runner "+name), out)
		listed := regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(out, -1)
		var has []string
		c.flagSet(&options{}).VisitAll(func(f *flag.Flag) { has = append(has, f.Name) })
		var said []string
		for _, l := range listed {
			said = append(said, l[1])
		}
		require.ElementsMatch(t, has, said, name)
		_, same, _ := do(t, "", nil, name, "-help")
		require.Equal(t, out, same)
	}
	require.Len(t, pages, len(commands))
	for _, page := range append(slices.Collect(maps.Values(pages)), help) {
		for line := range strings.SplitSeq(page, "\n") {
			require.LessOrEqual(t, len(line), 80, line)
		}
	}
}

func TestWrongCommandLinesAreRejected(t *testing.T) {
	t.Parallel()
	dir := "-data-dir=" + filepath.Join(t.TempDir(), "data")
	for text, args := range map[string][]string{
		"unknown command frobnicate":  {"frobnicate"},
		"unknown command":             {"tok_enr_MARKER"},
		"run has no flag -frobnicate": {"run", "-frobnicate"},
		"run has no flag -labels; it is one of enroll\nTry svc-runner help run": {"run", "-labels=MARKER"},
		"status has no flag -mount; it is one of doctor and run":                {"status", "--mount"},
		"unknown command frob":           {"help", "frob"},
		"-max-processes: want 64":        {"run", "-max-processes=3"},
		"-max-job-disk-mib: want 0":      {"run", "-max-job-disk-mib=-1"},
		"a flag of run is malformed":     {"run", "-capacity=MARKER"},
		"a flag of status is malformed":  {"status", "-tok_enr_MARKER"},
		"status takes 0 arguments":       {"status", "MARKER"},
		"verify takes 1 arguments":       {"verify"},
		"enroll needs -url":              {"enroll", dir},
		"enroll needs a token":           {"enroll", dir, "-url=https://farm.example"},
		"-token and -token-file exclude": {"enroll", dir, "-url=https://farm.example", "-token=MARKER", "-token-file=-"},
		"verify needs -keys":             {"verify", dir, "file"},
	} {
		status, out, errors := do(t, "", nil, args...)
		require.Equal(t, 2, status, text)
		require.Empty(t, out)
		require.Contains(t, errors, "svc-runner: "+text)
		require.NotContains(t, errors, "MARKER")
	}
}

func TestTokenSources(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("of-file\n"), 0o600))
	for want, o := range map[string]options{
		"of-flag": {token: "of-flag"}, "of-file": {tokenFile: file}, "of-input": {tokenFile: "-"}, "of-environment": {},
	} {
		p := program{in: strings.NewReader("of-input\n"), env: environment{Token: "of-environment"}}
		got, err := p.secret(o)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := program{}.secret(options{tokenFile: file + "x"})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestCommandsWithoutEnrollment(t *testing.T) {
	t.Parallel()
	environ := []string{"SVC_RUNNER_DATA_DIR=" + filepath.Join(t.TempDir(), "data")}
	for _, args := range [][]string{{"run"}, {"status"}} {
		status, _, errors := do(t, "", environ, args...)
		require.Equal(t, 1, status)
		require.Contains(t, errors, "run svc-runner enroll")
	}
	status, _, errors := do(t, "", environ, "drain")
	require.Equal(t, 1, status)
	require.Contains(t, errors, "does not run")
	status, out, _ := do(t, "", environ, "doctor")
	require.Equal(t, 1, status)
	require.Contains(t, out, "BAD enrollment")
	require.Contains(t, out, "ok  sandbox none")
	status, _, errors = do(t, "tok_enr_MARKER", environ, "enroll", "-url=http://farm.example", "-token-file=-")
	require.Equal(t, 1, status)
	require.Contains(t, errors, "must be https://")
	require.NotContains(t, errors, "MARKER")
	status, out, _ = do(t, "", environ, "version")
	require.Zero(t, status)
	require.Equal(t, "svc-runner "+runner.Version+"\n", out)
	status, _, _ = do(t, "", environ, "uninstall")
	require.Zero(t, status)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	public, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	other, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "program"), []byte("the agent"), 0o600))
	releases := filepath.Join(dir, "releases")
	require.NoError(t, release.Pack(releases, release.Latest{Version: "1.2.3", MinProtocol: "svc-farm.v1"},
		[]release.Build{{OS: "linux", Arch: "amd64", Path: filepath.Join(dir, "program")}}, key))
	file := filepath.Join(releases, "1.2.3", release.Name("linux", "amd64"))
	verify := func(args ...string) (int, string) {
		status, out, errors := do(t, "", []string{"SVC_RUNNER_DATA_DIR=" + dir}, append([]string{"verify"}, args...)...)
		return status, out + errors
	}
	status, text := verify("-keys="+release.FormatKey(other)+","+release.FormatKey(public), "-version=1.2.3", file)
	require.Zero(t, status, text)
	require.Contains(t, text, "of release 1.2.3")
	status, _ = verify("-keys="+release.FormatKey(other), file)
	require.Equal(t, 1, status)
	status, _ = verify("-keys="+release.FormatKey(public), "-version=1.2.4", file)
	require.Equal(t, 1, status)
	latest, ours := filepath.Join(releases, release.LatestFile), "-keys="+release.FormatKey(public)
	status, text = verify(ours, latest)
	require.Zero(t, status, text)
	require.Contains(t, text, "of release 1.2.3")
	status, _ = verify("-keys="+release.FormatKey(other), latest)
	require.Equal(t, 1, status)
	status, text = verify(ours, "-version=1.2.4", latest)
	require.Equal(t, 1, status)
	require.Contains(t, text, "names release 1.2.3, not 1.2.4")

	for path, changed := range map[string]string{file: "another", latest: `{"version":"1.2.3"}`} {
		require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
		status, text = verify(ours, path)
		require.Equal(t, 1, status, text)
	}
}

// Signatures never expire: a release older than the program must be requested by version.
func TestVerifyRejectsOlderReleases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	public, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "program"), []byte("the agent"), 0o600))
	releases := filepath.Join(dir, "releases")
	require.NoError(t, release.Pack(releases, release.Latest{Version: "0.1.0"},
		[]release.Build{{OS: "linux", Arch: "amd64", Path: filepath.Join(dir, "program")}}, key))
	for _, name := range []string{"0.1.0/" + release.Name("linux", "amd64"), release.LatestFile} {
		file := filepath.Join(releases, name)
		status, _, errors := do(t, "", nil, "verify", "-keys="+release.FormatKey(public), file)
		require.Equal(t, 1, status)
		require.Contains(t, errors, "release 0.1.0 is signed, but older than this program, "+runner.Version)
		status, _, errors = do(t, "", nil, "verify", "-keys="+release.FormatKey(public), "-version=0.1.0", file)
		require.Zero(t, status, errors)
	}
}
