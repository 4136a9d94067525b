// Package tools tests the scripts in tools.
package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// script returns a command that runs a script of tools in a folder, with more environment variables.
func script(t *testing.T, folder, name string, args []string, environ ...string) *exec.Cmd {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../tools", name))
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), environ...)
	return cmd
}

// writeScript writes a program and returns its path.
func writeScript(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+text), 0o700))
	return path
}

func TestGenerateCheckFailsIfGitCannotReadTheTree(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	git := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	git("init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "other"), nil, 0o600))
	git("add", "other") // creates the index
	check := func() error {
		out, err := script(t, folder, "generate-check", nil, "GO="+writeScript(t, "echo changed > file")).CombinedOutput()
		t.Log(string(out))
		return err
	}
	require.Error(t, check(), "file is new")
	require.NoError(t, check())
	git("init", "-q", "nested") // git add refuses a repository without a commit
	require.NoError(t, os.Remove(filepath.Join(folder, "file")))
	require.Error(t, check())
}

func TestStressKeepsALogOfEachFailure(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	compiler := writeScript(t, `if [[ $1 == list ]]; then echo "acme/web $PWD"; exit; fi
while [[ $1 != -o ]]; do shift; done
printf '#!/bin/sh\necho broken\nexit 1\n' >"$2" && chmod +x "$2"
`)
	out, err := script(t, folder, "stress", []string{folder, "2", "web"}, "GO="+compiler).Output()
	require.Error(t, err)
	failures := strings.Count(string(out), "FAILED: "+folder)
	require.Positive(t, failures)
	logs, err := filepath.Glob(filepath.Join(folder, "*.log"))
	require.NoError(t, err)
	require.Equal(t, failures, len(logs))
}
