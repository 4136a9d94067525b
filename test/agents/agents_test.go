// Package agents tests the examples of implementers.
package agents

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const examples = "../../examples/implementers"

// programs are what the implementers start.
var programs = map[string]string{
	"claude-code": "claude", "codex": "codex", "aider": "aider", "openhands": "openhands", "mini-swe-agent": "mini",
}

// A job is what an implementer finds.
type job struct {
	dir, in, out, bin string
	environ           []string
}

// newJob returns a job with a task. Programs in bin are found first.
func newJob(t *testing.T, environ ...string) *job {
	t.Helper()
	root := t.TempDir()
	j := &job{dir: root + "/work", in: root + "/in", out: root + "/out", bin: root + "/bin"}
	for _, dir := range []string{j.dir, j.in, j.out, j.bin, root + "/tmp", root + "/home"} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	const task = `{"contract":1,"stage":"fix","run":"019aa0f4","round":2,"issue":{"number":7,"title":"Say deux","body":"In \"words.txt\"."},
		"facts":["The issue is #7."],"plan":"Do it.","findings":["The job test failed."],"logTail":"want deux",
		"limits":{"cents":500,"files":9,"lines":90}}`
	require.NoError(t, os.WriteFile(j.in+"/task.json", []byte(task), 0o600))
	j.environ = append([]string{"PATH=" + j.bin + ":" + os.Getenv("PATH"), "HOME=" + root + "/home", "TMPDIR=" + root + "/tmp",
		"SVC_IN=" + j.in, "SVC_OUT=" + j.out}, environ...)
	return j
}

// fake puts a program there that prints an envelope. It keeps its arguments and its input, and copies the envelope to the file
// that -o names.
func (j *job) fake(t *testing.T, name, envelope string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(examples, "testdata", envelope))
	require.NoError(t, err)
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >'" + j.bin + "/args'\ncat >'" + j.bin + "/stdin'\ncat '" + path + "'\n" +
		"while test $# -gt 0; do if test \"$1\" = -o; then cp '" + path + "' \"$2\"; fi; shift; done\nexit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(j.bin, name), []byte(script), 0o700))
}

func (j *job) command(t *testing.T, tool string) *exec.Cmd {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(examples, tool, "implement.sh"))
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "sh", script)
	cmd.Dir, cmd.Env = j.dir, j.environ
	return cmd
}

// An outcome is what an implementer says.
type outcome struct {
	Status, Summary string
	Cost            struct {
		Cents                     *float64
		InputTokens, OutputTokens int
	}
}

// outcome returns what the implementer has said; nil if it has said nothing.
func (j *job) outcome(t *testing.T) *outcome {
	t.Helper()
	text, err := os.ReadFile(j.out + "/outcome.json")
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	var o outcome
	require.NoError(t, json.Unmarshal(text, &o), string(text))
	return &o
}

// Envelopes that tools have printed become outcomes. An error of the model is no success, whatever the envelope calls it, and no
// failure of the work; a cost that nobody says is unknown.
func TestR6Envelopes(t *testing.T) {
	cents := func(n float64) *float64 { return &n }
	for name, c := range map[string]struct {
		status, summary string
		cents           *float64
		tokens          int // of input
	}{
		"claude-code/done":      {"done", "Done.", cents(1), 2000},
		"claude-code/429":       {"unavailable", "429", cents(0), 0},
		"claude-code/max-turns": {"incomplete", "error_max_turns", cents(0.75), 2000},
		"claude-code/cut":       {},
		"codex/done":            {"done", "Done.", nil, 2000},
		"codex/429":             {"unavailable", "429", cents(0), 0},
		"codex/cut":             {},
		"aider/done":            {"done", "Applied edit to words.txt", cents(5), 0},
		"aider/401":             {"unavailable", "AuthenticationError", cents(0), 0},
		"aider/recovered":       {"done", "Applied edit", cents(2), 0},
		"aider/no-price":        {"done", "Applied edit", nil, 0},
		"openhands/done":        {"done", "words.txt says deux", nil, 0},
		"openhands/429":         {"unavailable", "RateLimitError", nil, 0},
		"mini-swe-agent/done":   {"done", "Submitted", cents(3.5), 0},
		"mini-swe-agent/limit":  {"incomplete", "LimitsExceeded", cents(301), 0},
		"mini-swe-agent/401":    {"unavailable", "AuthenticationError", cents(0), 0},
		"mini-swe-agent/free":   {"done", "Submitted", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool, _, _ := strings.Cut(name, "/")
			j := newJob(t)
			j.fake(t, programs[tool], name+".txt")
			text, err := j.command(t, tool).CombinedOutput()
			o := j.outcome(t)
			if c.status == "" {
				require.Nil(t, o, "%s", text)
				return
			}
			require.NotNil(t, o, "%v %s", err, text)
			require.Equal(t, c.status, o.Status, o.Summary)
			require.Contains(t, o.Summary, c.summary)
			require.Equal(t, c.tokens, o.Cost.InputTokens)
			if c.cents == nil {
				require.Nil(t, o.Cost.Cents)
			} else {
				require.InDelta(t, *c.cents, *o.Cost.Cents, 0.01)
			}
			files, err := os.ReadDir(j.dir)
			require.NoError(t, err)
			require.Empty(t, files, "the change is the tool's alone")
		})
	}
}

// A tool learns what the task is, and that it may use nine tenths of the budget.
func TestPrompts(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	j.fake(t, "claude", "claude-code/done.txt")
	require.NoError(t, j.command(t, "claude-code").Run())
	args, err := os.ReadFile(j.bin + "/args")
	require.NoError(t, err)
	require.Contains(t, string(args), "--max-budget-usd\n4.5\n")
	prompt, err := os.ReadFile(j.bin + "/stdin")
	require.NoError(t, err)
	parts := []string{"Issue #7: Say deux", `In "words.txt".`, "- The issue is #7.", "- The job test failed.", "want deux", "9 files"}
	for _, part := range parts {
		require.Contains(t, string(prompt), part)
	}
}

// An implementer that is killed says nothing, so nobody takes its work for free.
func TestR36AKilledImplementerSaysNothing(t *testing.T) {
	for tool, program := range programs {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			begun := j.bin + "/begun"
			require.NoError(t, os.WriteFile(filepath.Join(j.bin, program), []byte("#!/bin/sh\ntouch '"+begun+"'\nexec sleep 600\n"), 0o700))
			cmd := j.command(t, tool)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			require.NoError(t, cmd.Start())
			require.Eventually(t, func() bool { _, err := os.Stat(begun); return err == nil }, time.Minute, 5*time.Millisecond)
			require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM))
			require.Error(t, cmd.Wait())
			require.Nil(t, j.outcome(t))
		})
	}
}
