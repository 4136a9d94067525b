// Package tools tests the scripts in tools.
package tools

import (
	"os"
	"os/exec"
	"path/filepath"
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
