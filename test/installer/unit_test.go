package installer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// part runs functions of the installer, which needs root and systemd as a whole.
func (m *machine) part(script string, args ...string) (string, error) {
	functions, _, ok := strings.Cut(m.script(), "\n{\nmain ")
	require.True(m.t, ok)
	cmd := exec.CommandContext(m.t.Context(), "/bin/sh", append([]string{"-c", functions + "\n" + script, "install.sh"}, args...)...)
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
		said, err := m.part(`options "$@"; unit=`+unit+`; write_options; write_unit`, append([]string{"--prefix", m.root}, args...)...)
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
