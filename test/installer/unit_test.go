package installer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// part runs functions of the installer, which needs root and systemd as a whole. The unit of this machine's own
// service is left alone.
func (m *machine) part(script string, args ...string) (string, error) {
	functions, _, ok := strings.Cut(m.script(), "\n{\nmain ")
	require.True(m.t, ok)
	args = append([]string{"-c", functions + "\nunit=$UNIT\n" + script, "install.sh"}, args...)
	cmd := exec.CommandContext(m.t.Context(), "/bin/sh", args...)
	cmd.Env = append(os.Environ(), "UNIT="+filepath.Join(m.t.TempDir(), "unit"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Jobs may run for a day. Neither systemctl stop nor an upgrade, which restarts the service, kills
// them; nor does systemd limit how many processes they have in all.
func TestServiceWaitsForJobs(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	unit, etc := filepath.Join(m.root, "unit"), filepath.Join(m.root, "etc/svc-runner")
	require.NoError(t, os.MkdirAll(etc, 0o755))
	write := func(args ...string) (string, string) {
		said, err := m.part(`unit=`+unit+`; options "$@"; write_options; write_unit`, append([]string{"--prefix", m.root}, args...)...)
		require.NoError(t, err, said)
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		options, err := os.ReadFile(filepath.Join(etc, "options"))
		require.True(t, err == nil || os.IsNotExist(err))
		return string(text), string(options)
	}
	text, options := write()
	require.Empty(t, options)
	for _, line := range []string{
		"TimeoutStopSec=infinity", "TasksMax=infinity", "KillMode=mixed", "Delegate=yes", "WatchdogSec=60", "RestartPreventExitStatus=78",
		"EnvironmentFile=-" + etc + "/options", "ExecStart=" + m.bin() + " run --data-dir /var/lib/svc-runner $SVC_RUNNER_OPTIONS",
	} {
		require.Contains(t, strings.Split(text, "\n"), line)
	}
	_, options = write("--capacity", "4")
	require.Equal(t, "SVC_RUNNER_OPTIONS=--capacity=4\n", options)
	require.NoError(t, os.WriteFile(filepath.Join(etc, "options"), []byte("SVC_RUNNER_OPTIONS=--capacity=4 -mount=/opt\n"), 0o600))
	_, options = write()
	require.Equal(t, "SVC_RUNNER_OPTIONS=--capacity=4 -mount=/opt\n", options, "an upgrade keeps what was said before")
	_, options = write("--capacity=8")
	require.Equal(t, "SVC_RUNNER_OPTIONS=--capacity=8 -mount=/opt\n", options)
}

// The file of the unit is an administrator's too.
func TestCapacityKeepsOtherOptions(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	file := filepath.Join(m.root, "etc/svc-runner/options")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	for before, after := range map[string]string{
		"# of the network\nHTTPS_PROXY=http://u:p@proxy\nSVC_RUNNER_OPTIONS=-mount=/opt --capacity 4\nSVC_LOG_LEVEL=debug": "" +
			"# of the network\nHTTPS_PROXY=http://u:p@proxy\nSVC_RUNNER_OPTIONS=--capacity=8 -mount=/opt\nSVC_LOG_LEVEL=debug\n",
		"HTTPS_PROXY=http://proxy\n":                            "HTTPS_PROXY=http://proxy\nSVC_RUNNER_OPTIONS=--capacity=8\n",
		"SVC_RUNNER_OPTIONS=\"--capacity=4 -mount=/opt\"\n":     "SVC_RUNNER_OPTIONS=\"--capacity=8 -mount=/opt\"\n",
		" SVC_RUNNER_OPTIONS = '-mount=/opt -capacity=64'\n":    " SVC_RUNNER_OPTIONS = '--capacity=8 -mount=/opt '\n",
		"#SVC_RUNNER_OPTIONS=--capacity=1\nSVC_RUNNER_OPTIONS=": "#SVC_RUNNER_OPTIONS=--capacity=1\nSVC_RUNNER_OPTIONS=--capacity=8\n",
	} {
		require.NoError(t, os.WriteFile(file, []byte(before), 0o600))
		require.NoError(t, os.Chmod(file, 0o640))
		said, err := m.part(`umask 022; options "$@"; write_options`, "--prefix", m.root, "--capacity", "8")
		require.NoError(t, err, said)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, after, string(text))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), info.Mode())
	}
}

// An upgrade and an uninstallation find the folder that the service was installed with.
func TestServiceKeepsItsFolder(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	unit := filepath.Join(t.TempDir(), "unit")
	folder := func(args ...string) string {
		said, err := m.part(`unit=`+unit+`; options "$@"; write_unit; echo "$data"`, append(args, "--prefix", m.root)...)
		require.NoError(t, err, said)
		text, err := os.ReadFile(unit)
		require.NoError(t, err)
		require.Contains(t, string(text), " --data-dir "+strings.TrimSpace(said)+" $SVC_RUNNER_OPTIONS\n")
		return strings.TrimSpace(said)
	}
	require.Equal(t, "/var/lib/svc-runner", folder())
	require.Equal(t, "/srv/runner", folder("--data-dir", "/srv/runner"))
	require.Equal(t, "/srv/runner", folder())
	require.Equal(t, "/srv/runner", folder("--uninstall"))
	require.Equal(t, "/srv/other", folder("--data-dir=/srv/other"), "it is moved")
	require.NoError(t, os.WriteFile(unit, []byte("[Service]\nExecStart=svc-runner run\n"), 0o600))
	require.Equal(t, "/var/lib/svc-runner", folder())
}

// A service has no access to the folders of people. That is said before the token is spent.
func TestFolderThatServiceCannotUse(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("/home", link))
	check := func(dir string, args ...string) (string, error) {
		return m.part(`id() { echo 0; }; options --data-dir "$@"; check_place`, append([]string{dir}, args...)...)
	}
	for _, dir := range []string{
		"/home/ada/runner", "/home", "/root", "//root/runner", "/srv/../home/ada", link + "/ada", "/run/user/1", "/tmp/a",
	} {
		said, err := check(dir)
		require.Error(t, err, dir)
		require.Contains(t, said, "a service has no access to "+dir+" (ProtectHome")
	}
	for _, dir := range []string{"/srv/my runner", "/srv/%n", "/srv/$HOME", `/srv/"`} {
		said, err := check(dir)
		require.Error(t, err, dir)
		require.Contains(t, said, "letters, digits and /._- only")
	}
	folder := func(names ...string) string {
		dir := t.TempDir()
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		return dir
	}
	locks := folder()
	require.NoError(t, os.Mkdir(filepath.Join(locks, "lock"), 0o700))
	for _, dir := range []string{"/", "/usr", "/usr/", folder("a"), folder(".a"), folder("lost+found", "a"), locks} {
		said, err := check(dir, "--no-service")
		require.Error(t, err, dir)
		require.Contains(t, said, dir+" has something else in it: choose a --data-dir that is new or empty")
		said, err = check(dir, "--no-service", "--uninstall")
		require.NoError(t, err, said)
	}
	said, err := check("/usr")
	require.Error(t, err)
	require.Contains(t, said, "/usr has something else in it")
	for _, dir := range []string{
		folder(), folder("lost+found"), folder("identity.json", "a"), folder("lock", "a"), filepath.Join(folder(), "new"),
	} {
		said, err := check(dir, "--no-service")
		require.NoError(t, err, said)
	}
	said, err = m.part(`id() { echo 0; }; find() { echo "$2"; }; options --no-service --data-dir "$@"; check_place`, folder("a"))
	require.NoError(t, err, said)
	for _, dir := range []string{"/var/lib/svc-runner", "/srv/home/runner", "/homes/a.b-c_1"} {
		said, _ := check(dir) // systemd may not run here
		require.NotContains(t, said, "--data-dir", dir)
	}
	for _, args := range [][]string{nil, {"--data-dir", "/srv/a+b"}} { // a unit that is there works
		said, _ := m.part(`echo "ExecStart=svc-runner run --data-dir /srv/a+b" >"$unit"; id() { echo 0; }; options "$@"; check_place`,
			args...)
		require.NotContains(t, said, "--data-dir")
	}
	for _, arg := range []string{"--uninstall", "--no-service"} {
		said, _ := check("/root/my runner", arg)
		require.NotContains(t, said, "--data-dir", arg)
	}
}

func TestCapacityAndLabelsAreEnrolled(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	said, err := m.install(m.script(), "--server-ca", m.ca, "--token", "tok_enr_1", "--capacity", "4", "--labels", "disk=ssd,pool=a")
	require.NoError(t, err, said)
	told, err := os.ReadFile(filepath.Join(m.data, "enrolled"))
	require.NoError(t, err)
	require.Contains(t, string(told), "\n--capacity\n4\n--labels\ndisk=ssd,pool=a")
	said, err = m.install(m.script(), "--uninstall")
	require.NoError(t, err, said)
	require.NoFileExists(t, filepath.Join(m.root, "etc/svc-runner/options"))
	for _, capacity := range []string{"0", "four", "-1", "1000", "4 -data-dir=/"} {
		m.refuses("--capacity", m.script(), "--no-enroll", "--server-ca", m.ca, "--capacity", capacity)
	}
}

// Jobs can run as the user of the service, and put links into its folder. Root follows none: it leaves
// whatever touches the folder to that user.
func TestRootDoesNotTouchFolderOfService(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	dir := t.TempDir()
	elsewhere, identity := filepath.Join(dir, "elsewhere"), filepath.Join(m.data, "identity.json")
	require.NoError(t, os.MkdirAll(m.data, 0o700))
	require.NoError(t, os.WriteFile(elsewhere, []byte("other"), 0o644))
	require.NoError(t, os.WriteFile(identity, nil, 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(m.data, "server-ca.pem.next")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "unit"), nil, 0o600))
	const stubs = `make_user() { :; }; chown() { echo "chown $*"; }; systemctl() { :; }; write_unit() { :; }; say() { :; }
		unit=$here/unit; service=yes; token=tok_enr_1; mkdir -p "${bin%/*}"
		printf '#!/bin/sh\necho "as root: $*" >>%s/asked\n' "$here" >"$bin.new"; chmod 755 "$bin.new"; `
	run := func(script string) string {
		t.Helper()
		said, err := m.part(`here="$1"; shift; options "$@"; `+stubs+script, dir, "--prefix", m.root, "--data-dir", m.data, "--server-ca", m.ca)
		require.NoError(t, err, said)
		return said
	}
	said := run(`runuser() { echo "$*" >>"$here/asked"; }; place; enroll; start; uninstall; cat "$here/asked"`)
	for _, want := range []string{
		"-u svc-runner -- sh -c umask 077;", "-u svc-runner -- " + m.bin() + " enroll ", "-u svc-runner -- " + m.bin() + " uninstall ",
		"-u svc-runner -- " + m.bin() + " status ",
	} {
		require.Contains(t, said, want)
	}
	require.Equal(t, 1, strings.Count(said, "chown"), said)
	require.NotContains(t, said, "as root")
	require.NoFileExists(t, filepath.Join(m.data, "server-ca.pem"), "it is that user who writes it")

	said = run(`runuser() { shift 3; "$@"; }; place`)
	require.Equal(t, "chown svc-runner: "+m.data+"\n", said)
	text, err := os.ReadFile(elsewhere)
	require.NoError(t, err)
	require.Equal(t, "other", string(text), "the link was not followed")
	copied := filepath.Join(m.data, "server-ca.pem")
	text, err = os.ReadFile(copied)
	require.NoError(t, err)
	original, err := os.ReadFile(m.ca)
	require.NoError(t, err)
	require.Equal(t, string(original), string(text))
	info, err := os.Lstat(copied)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// managed runs the whole installer for root and systemd, which are not there: it returns what it would have asked of
// systemd and of the service's user, with the program that was installed then.
func (m *machine) managed(before, program string, args ...string) (string, error) {
	m.t.Helper()
	asked := filepath.Join(m.t.TempDir(), "asked")
	said, err := m.part(`asked="$1"; : >"$asked"; shift
		note() { echo "$* [$(sed -n 's/^# //p' "$prefix/usr/local/bin/svc-runner" 2>/dev/null)]" >>"$asked"; }
		id() { echo 0; }; check_place() { :; }; need() { :; }; make_user() { :; }; chown() { :; }; sleep() { :; }
		systemctl() { note "systemctl $*"; }; runuser() { shift 3; note "$*"; }
		fetch() { mkdir -p "${bin%/*}"; printf '#!/bin/sh\n# `+program+`\n' >"$bin.new"; chmod 755 "$bin.new"; }
		`+before+`; main "$@"`, append([]string{asked, "--prefix", m.root, "--data-dir", m.data}, args...)...)
	text, failed := os.ReadFile(asked)
	require.NoError(m.t, failed, said)
	return strings.NewReplacer(m.bin(), "svc-runner", m.data, "DATA", "svc-runner.service", "UNIT").Replace(string(text)) + said, err
}

func TestServiceIsStartedRestartedAndStopped(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	unit := "unit=" + filepath.Join(t.TempDir(), "unit")
	require.NoError(t, os.MkdirAll(m.data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(m.data, "identity.json"), nil, 0o600))
	for _, program := range []string{"1.2.3", "1.2.4"} {
		asked, err := m.managed(unit, program, "--no-enroll")
		require.NoError(t, err, asked)
		require.Equal(t, strings.ReplaceAll(`systemctl daemon-reload [new]
systemctl enable --quiet UNIT [new]
systemctl is-active --quiet UNIT [new]
systemctl restart UNIT [new]
svc-runner status --data-dir DATA [new]
`, "new", program)+`svc-runner: the service stops when its jobs have ended; 'systemctl kill --kill-who=main svc-runner' cancels them
svc-runner: this machine is a runner, and online
`, asked)
	}
	asked, err := m.managed(unit+"; runuser() { return 1; }", "", "--uninstall")
	require.Error(t, err)
	require.Contains(t, asked, "the service is stopped; 'systemctl enable --now svc-runner' starts it again\n")
	asked, err = m.managed(unit, "", "--uninstall")
	require.NoError(t, err, asked)
	asked, _, _ = strings.Cut(asked, "svc-runner: ")
	require.Equal(t, `systemctl disable --now --quiet UNIT [1.2.4]
svc-runner uninstall --data-dir DATA [1.2.4]
systemctl daemon-reload []
`, asked)
}

// A program that does not get online makes way for the one that did.
func TestFailedUpgradeIsUndone(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	unit := "unit=" + filepath.Join(t.TempDir(), "unit")
	require.NoError(t, os.MkdirAll(m.data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(m.data, "identity.json"), nil, 0o600))
	fails := unit + `; runuser() { case $* in *status*) return 1 ;; esac; }`
	asked, err := m.managed(fails, "1.2.3", "--no-enroll")
	require.Error(t, err)
	require.Contains(t, asked, "the runner is not online after a minute: journalctl")
	asked, err = m.managed(unit, "1.2.3", "--no-enroll")
	require.NoError(t, err, asked)
	require.NoFileExists(t, m.bin()+".old")

	asked, err = m.managed(fails, "1.2.4", "--no-enroll", "--capacity", "4")
	require.Error(t, err)
	require.Contains(t, asked, "systemctl restart UNIT [1.2.4]\nsystemctl restart UNIT [1.2.3]\n")
	require.Contains(t, asked, "the program that was here before is back")
	require.NoFileExists(t, m.bin()+".old")
	text, err := os.ReadFile(m.bin())
	require.NoError(t, err)
	require.Contains(t, string(text), "1.2.3")

	asked, err = m.managed(unit+`; runuser() { case $* in *enroll*) return 1 ;; esac; }`, "1.2.4", "--token", "tok_enr_1")
	require.Error(t, err)
	require.Contains(t, asked, "this machine is enrolled already: --no-enroll upgrades it")
	text, err = os.ReadFile(m.bin())
	require.NoError(t, err)
	require.Contains(t, string(text), "1.2.3", "which the service runs")

	// systemctl fails if the program ends before it is ready.
	asked, err = m.managed(unit+`; works() { ! grep -q 1.2.4 "$bin"; }; runuser() { works; }
		systemctl() { note "systemctl $*"; [ "$1" != restart ] || works; }`, "1.2.4", "--no-enroll")
	require.Error(t, err)
	require.Contains(t, asked, "systemctl restart UNIT [1.2.4]\nsystemctl restart UNIT [1.2.3]\n")
	require.Contains(t, asked, "the program that was here before is back")
}

// An uninstallation that was interrupted can be repeated: it still knows the folder, and that jobs could write to it.
func TestInterruptedUninstallIsRepeated(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	unit := filepath.Join(t.TempDir(), "unit")
	uninstall := func(script string) string {
		said, _ := m.part(`unit=`+unit+`; systemctl() { :; }; say() { :; }; runuser() { echo "$*"; }; `+script+`; uninstall`,
			"--uninstall", "--prefix", m.root)
		return said
	}
	said, err := m.part(`unit=`+unit+`; options "$@"; write_unit; mkdir -p "${bin%/*}"; echo '#!/bin/sh' >"$bin"; chmod 755 "$bin"`,
		"--prefix", m.root, "--data-dir", m.data)
	require.NoError(t, err, said)
	require.Empty(t, uninstall(`options "$@"; as_runner() { exit 1; }`))
	require.Empty(t, uninstall(`options "$@"; as_runner() { false; }`), "svc-runner refuses: it has something to send")
	require.FileExists(t, m.bin())
	require.Equal(t, "-u svc-runner -- "+m.bin()+" uninstall --data-dir "+m.data+"\n", uninstall(`options "$@"`))
	require.NoFileExists(t, unit)
	require.NoFileExists(t, m.bin())
}

// Root leaves a folder of the service's user to that user even where no unit is.
func TestFolderOfServiceWithoutUnit(t *testing.T) {
	t.Parallel()
	m := newSite(t).machine()
	for owner, want := range map[string]string{"svc-runner": "-u svc-runner -- echo done\n", "root": "done\n"} {
		said, err := m.part(`options "$@"; id() { echo 0; }; runuser() { echo "$*"; }
			find() { [ "$2 $5" != "$data `+owner+`" ] || echo "$2"; }; as_runner echo done`, "--no-service", "--data-dir", m.data)
		require.NoError(t, err, said)
		require.Equal(t, want, said, owner)
	}
}
