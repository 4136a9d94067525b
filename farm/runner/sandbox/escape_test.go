//go:build linux

package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A step of the sandbox chooses the variables of the next one, and what is in its working
// directory. Neither has any effect on programs that run outside of the sandbox.
func TestVariablesOfStepDoNotReachPrograms(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]func(outside string) []string{
		"program from working directory": func(string) []string { return []string{"PATH=/proc/self/cwd"} },
		"program by relative path":       func(string) []string { return []string{"PATH=."} },
		"loader": func(outside string) []string { // like LD_PRELOAD and LD_AUDIT, without a library to compile
			return []string{"LD_DEBUG=libs", "LD_DEBUG_OUTPUT=" + filepath.Join(outside, "loader")}
		},
		"Go runtime": func(outside string) []string { return []string{"GOCOVERDIR=" + outside, "GODEBUG=inittrace=1"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside := t.TempDir()
			j := job(t, Bubblewrap)
			r, out := j.sh(t, "printf '#!/bin/sh\\ntouch "+outside+"/escaped\\n' >bwrap; chmod +x bwrap; for p in sh setsid; do cp bwrap $p; done")
			require.Zero(t, r.ExitCode, out)
			_, out = j.sh(t, "/bin/cat /proc/self/mountinfo", env(outside)...)
			require.Contains(t, out, " /work ", "it ran in the sandbox")
			require.NotContains(t, out, "init runtime")
			left, err := os.ReadDir(outside)
			require.NoError(t, err)
			require.Empty(t, left, "something outside of the sandbox used a variable of the step")
		})
	}
}

// Bubblewrap's options are separated by zero bytes, so a value with one would add options.
func TestZeroBytesAreRefused(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		for _, c := range []Command{
			{Args: []string{"/bin/sh", "-c", "echo ran"}, Env: append(j.Env(), "A=b\x00--bind\x00/\x00/tmp")},
			{Args: []string{"/bin/sh", "-c", "echo ran\x00"}, Env: j.Env()},
		} {
			var out bytes.Buffer
			c.Output = &out
			_, err := j.Run(t.Context(), t.Context(), c)
			require.ErrorContains(t, err, "zero byte")
			require.Empty(t, out.String())
		}
	})
}

// Values of variables are in no command line, which every process of the machine can read, and the
// step has no file open from which they came.
func TestVariablesAreInNoCommandLine(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		_, out := j.sh(t, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'; ls -l /proc/self/fd; echo \"[$WORD]\"", "WORD=value of\nword")
		require.Contains(t, out, "[value of\nword]")
		require.Equal(t, 1, bytes.Count([]byte(out), []byte("value of")))
		require.NotContains(t, out, "memfd")
		if kind == Bubblewrap {
			require.NotContains(t, out, j.Dir, "nor is the runner's folder")
		}
	})
}

func TestProgramIsFoundOnPathOfStep(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		j := job(t, kind)
		r, out := j.sh(t, "mkdir bin; printf '#!/bin/sh\\necho own program\\n' >bin/own; chmod +x bin/own; pwd")
		require.Zero(t, r.ExitCode, out)
		path := "PATH=" + filepath.Join(string(bytes.TrimSpace([]byte(out))), "bin") + ":/usr/bin:/bin"
		var got bytes.Buffer
		r, err := j.Run(t.Context(), t.Context(), Command{Args: []string{"own"}, Env: append(j.Env(), path), Output: &got})
		require.NoError(t, err)
		require.Zero(t, r.ExitCode, got.String())
		require.Equal(t, "own program\n", got.String())
	})
}
