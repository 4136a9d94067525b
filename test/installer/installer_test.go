package installer

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"svc/farm/release"
)

// The command that a person copies, but for root.
func TestFromNothingToAVerifiedProgram(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	command := fmt.Sprintf("curl -fsSL --proto '=https' --tlsv1.2 --cacert %[1]s %[2]s/install.sh | sh -s "+
		"-- --url %[2]s --server-ca %[1]s --token tok_enr_1"+
		" --name builder-1 --no-service --prefix %[3]s --data-dir %[4]s", m.ca, m.url, m.root, m.data)
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", command).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "checksum and signature are right")

	want, err := os.ReadFile(program(t, version))
	require.NoError(t, err)
	got, err := os.ReadFile(m.bin())
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "the program that was packed")
	info, err := os.Stat(m.bin())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	info, err = os.Stat(m.data)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	ca := filepath.Join(m.root, "etc/svc-runner/server-ca.pem")
	copied, err := os.ReadFile(ca)
	require.NoError(t, err)
	original, err := os.ReadFile(m.ca)
	require.NoError(t, err)
	require.Equal(t, string(original), string(copied))
	told, err := os.ReadFile(filepath.Join(m.data, "enrolled"))
	require.NoError(t, err)
	require.Equal(t, strings.Join([]string{"tok_enr_1", "--url", m.url, "--data-dir", m.data, "--server-ca", ca, "--name", "builder-1"}, "\n"),
		string(told))

	said, err := m.install(m.script(), "--server-ca", m.ca, "--no-enroll")
	require.NoError(t, err, said) // once more, over the program that is there
	said, err = m.install(m.script(), "--uninstall")
	require.NoError(t, err, said)
	require.NoFileExists(t, m.bin())
	require.NoDirExists(t, m.data)
	require.NoDirExists(t, filepath.Dir(ca))
}

// A program that is not of its release's version would judge later releases by the wrong one.
func TestProgramOfAnotherVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	require.NoError(t, os.RemoveAll(s.releases))
	for own, want := range map[string]string{"1.2.2": "release 1.2.3 says that it is svc-runner 1.2.2", "1.2.33": "svc-runner 1.2.33;"} {
		m := s.machine()
		s.pack(runtime.GOARCH, program(t, own))
		m.refuses(want, m.script(), "--server-ca", m.ca, "--no-enroll")
		require.NoError(t, os.RemoveAll(s.releases))
	}
}

func TestSourcesOfToken(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	script := filepath.Join(t.TempDir(), "install.sh")
	require.NoError(t, os.WriteFile(script, []byte(m.script()), 0o600))
	for name, c := range map[string]struct{ env, arg, stdin string }{
		"environment": {env: "SVC_ENROLL_TOKEN=tok_enr_2"}, "standard input": {arg: "--token=-", stdin: "tok_enr_2\n"},
		"without a newline": {arg: "--token=-", stdin: "tok_enr_2"},
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", script, "--server-ca="+m.ca, "--no-service", "--prefix="+m.root, "--data-dir="+m.data)
		if c.arg != "" {
			cmd.Args = append(cmd.Args, c.arg)
		}
		cmd.Env, cmd.Stdin = append(os.Environ(), c.env), strings.NewReader(c.stdin)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s", name, out)
		told, err := os.ReadFile(filepath.Join(m.data, "enrolled"))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(told), "tok_enr_2\n"), name)
	}
	said, err := m.install(m.script(), "--server-ca", m.ca, "--token", "tok_enr_refused")
	require.Error(t, err)
	require.Contains(t, said, "enrollment_invalid")
	require.Contains(t, said, "Ask for a new command")
}

func TestRefusedInstallations(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	script, trusted := s.machine().script(), []string{"--no-enroll", "--server-ca", s.ca}
	m := s.machine()
	m.refuses("could not download "+m.url+"/runner/"+version+"/SHA256SUMS", script, "--no-enroll")
	m.refuses("install with --server-ca FILE", script, "--no-enroll")
	m.refuses("could not download https://127.0.0.1:1/runner", script, append(trusted, "--url", "https://127.0.0.1:1")...)
	m.refuses("must begin with https://", script, append(trusted, "--url", "http://127.0.0.1:1")...)
	m.refuses("could not download", script, append(trusted, "--version", "9.9.9")...)
	m.refuses("that is no version", script, append(trusted, "--version", "../1.2.3")...)
	m.refuses("--prefix and --data-dir must begin with /", script, append(trusted, "--prefix", "root")...)
	m.refuses("--prefix and --data-dir must begin with /", script, append(trusted, "--data-dir", "data")...)
	m.refuses("no token: copy the command", script, "--server-ca", s.ca)
	m.refuses("unknown option: --verbose", script, "--verbose")
	m.refuses("--token needs a value", script, "--token")
	m.refuses("cannot read /nowhere/ca.pem", script, "--server-ca", "/nowhere/ca.pem")

	m.only()
	m.refuses("this needs curl", script, trusted...)
	m.only("curl")
	m.uname("Plan9", "x86_64")
	m.refuses("there is no svc-runner for Plan9", script, trusted...)
	m.uname("Linux", "sparc64")
	m.refuses("machines of the kind sparc64", script, trusted...)
	if runtime.GOARCH == "arm64" {
		m.uname("Linux", "x86_64")
	} else {
		m.uname("Linux", "aarch64")
	}
	m.refuses("release 1.2.3 has no svc-runner for linux/", script, trusted...)
}

// Nothing that is downloaded has to run in the temporary folder, which some mount noexec.
func TestTemporaryFolderWithoutPrograms(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	args := []string{"--server-ca", m.ca, "--no-enroll"}
	m.noexec(m.root + "/usr/local/bin")
	m.refuses("programs in "+m.root+"/usr/local/bin cannot be run, perhaps because it is mounted noexec", m.script(), args...)
	m.noexec(`$TMPDIR`)
	said, err := m.install(m.script(), args...)
	require.NoError(t, err, said)
	require.FileExists(t, m.bin())
}

// noexec makes no file of a folder a program.
func (m *machine) noexec(dir string) {
	m.only("curl")
	chmod, err := exec.LookPath("chmod")
	require.NoError(m.t, err)
	at := filepath.Join(m.path, "chmod")
	require.NoError(m.t, os.Remove(at))
	text := fmt.Sprintf("#!/bin/sh\ncase $2 in \"%s\"/*) ;; *) exec %s \"$@\" ;; esac\n", dir, chmod)
	require.NoError(m.t, os.WriteFile(at, []byte(text), 0o755))
}

// uname makes the machine another.
func (m *machine) uname(system, kind string) {
	m.t.Helper()
	at := filepath.Join(m.path, "uname")
	require.NoError(m.t, os.Remove(at))
	text := fmt.Sprintf("#!/bin/sh\ncase $1 in -s) echo %s ;; -m) echo %s ;; esac\n", system, kind)
	require.NoError(m.t, os.WriteFile(at, []byte(text), 0o755))
}

// What somebody does who can change the releases, but has no key.
func TestForgedReleaseIsNotInstalled(t *testing.T) {
	t.Parallel()
	for _, openssl := range []bool{true, false} {
		for name, c := range map[string]struct {
			forge func(*site) error
			want  [2]string // with OpenSSL, and without
		}{
			"another program": {
				func(s *site) error {
					return os.WriteFile(s.file(release.Name(runtime.GOOS, runtime.GOARCH)), []byte("x"), 0o600)
				},
				[2]string{"is not what release 1.2.3 says", "is not what release 1.2.3 says"},
			},
			"other sums": {
				func(s *site) error {
					return s.append(release.SumsFile, strings.Repeat("0", 64)+"  1.2.3/svc-runner_plan9_amd64.gz\n")
				},
				[2]string{"is by none of this farm's keys", "could not be verified"},
			},
			"signed by another": {
				func(s *site) error {
					_, key, err := ed25519.GenerateKey(nil)
					if err != nil {
						return err
					}
					s.key = key
					s.pack(runtime.GOARCH, program(s.t, version))
					return nil
				},
				[2]string{"is by none of this farm's keys", "could not be verified"},
			},
			"an older release": {
				func(s *site) error {
					text, err := os.ReadFile(s.file(release.SumsFile))
					if err != nil {
						return err
					}
					old := strings.ReplaceAll(string(text), version, "1.2.2")
					signature := base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, []byte(old)))
					if err := os.WriteFile(s.file(release.SignatureFile), []byte(signature), 0o600); err != nil {
						return err
					}
					return os.WriteFile(s.file(release.SumsFile), []byte(old), 0o600)
				},
				[2]string{"release 1.2.3 has no svc-runner", "release 1.2.3 has no svc-runner"},
			},
			"no signature": {
				func(s *site) error { return os.WriteFile(s.file(release.SignatureFile), []byte("!"), 0o600) },
				[2]string{"is by none of this farm's keys", "could not be verified"},
			},
		} {
			t.Run(fmt.Sprintf("%s, OpenSSL %v", name, openssl), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				m := s.machine()
				script, want := m.script(), c.want[0]
				if !openssl {
					m.only("curl")
					want = c.want[1]
				}
				require.NoError(t, c.forge(s))
				m.refuses(want, script, "--server-ca", m.ca, "--no-enroll")
			})
		}
	}
}

// Without OpenSSL the program that is there verifies the release, before anything of it runs.
func TestForgedUpgradeDoesNotRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	m := s.machine()
	m.only("curl")
	args := []string{"--server-ca", m.ca, "--no-enroll"}
	said, err := m.install(m.script(), args...)
	require.NoError(t, err, said)
	before, err := os.ReadFile(m.bin())
	require.NoError(t, err)
	script, ran := m.script(), filepath.Join(t.TempDir(), "ran")
	forged := filepath.Join(t.TempDir(), "svc-runner")
	require.NoError(t, os.WriteFile(forged, []byte("#!/bin/sh\necho >'"+ran+"'; echo svc-runner "+version+"\n"), 0o600))
	_, s.key, err = ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(s.releases))
	s.pack(runtime.GOARCH, forged)
	for want, args := range map[string][]string{
		"the svc-runner that is here does not make way for release 1.2.3":    args,
		"release 1.2.3 could not be verified by the svc-runner that is here": append(args, "--version", version),
	} {
		said, err = m.install(script, args...)
		require.Error(t, err, said)
		require.NoFileExists(t, ran)
		require.Contains(t, said, want)
		after, err := os.ReadFile(m.bin())
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	}

	// A damaged program does not keep the machine from being repaired.
	_, s.key, err = ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(s.releases))
	s.pack(runtime.GOARCH, program(t, version))
	require.NoError(t, os.WriteFile(m.bin(), []byte("#!/nowhere\n"), 0o755))
	said, err = m.install(m.script(), append(args, "--version", version)...)
	require.NoError(t, err, said)
}

func (s *site) append(name, text string) error {
	f, err := os.OpenFile(s.file(name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Close()
}

// A download that breaks off does nothing, wherever it does.
func TestHalfAnInstallerDoesNothing(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	script := m.script()
	for at := range len(script) - 1 { // but for the last newline
		if at%97 != 0 && at < len(script)-20 {
			continue
		}
		said, _ := m.install(script[:at], "--server-ca", m.ca, "--no-enroll")
		require.NotContains(t, said, "svc-runner:", at)
		require.NoFileExists(t, m.bin())
	}
	said, err := m.install(script[:len(script)-1], "--server-ca", m.ca, "--no-enroll")
	require.NoError(t, err, said)
}
