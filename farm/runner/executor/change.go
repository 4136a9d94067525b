package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"svc/farm/runner/mask"
	"svc/farm/runner/sandbox"
	"svc/farm/wire"
)

// makeOutFolder makes $SVC_OUT empty, whatever the checkout has in its place, and hides it from git.
func (x *execution) makeOutFolder() error {
	root, err := os.OpenRoot(x.job.Work())
	if err != nil {
		return fmt.Errorf("open working directory: %w", err)
	}
	defer root.Close()
	if err := root.RemoveAll(wire.OutFolder); err != nil {
		return fmt.Errorf("make folder for output: %w", err)
	}
	if err := root.Mkdir(wire.OutFolder, 0o700); err != nil {
		return fmt.Errorf("make folder for output: %w", err)
	}
	if !x.checkedOut {
		return nil
	}
	info := filepath.Join(".git", "info")
	if err := root.Mkdir(info, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("exclude folder for output: %w", err)
	}
	if err := root.WriteFile(filepath.Join(info, "exclude"), []byte("/"+wire.OutFolder+"/\n"), 0o600); err != nil {
		return fmt.Errorf("exclude folder for output: %w", err)
	}
	return nil
}

// changeTimeout limits how long it takes to find what the steps changed.
const changeTimeout = time.Minute

// changeScript writes the difference between the commit and the working directory. It uses an index of
// its own, because the one of the checkout may be locked by a git that was killed, or hide files. No
// hook, filter, or driver of the repository has a say in the difference.
var changeScript = strings.NewReplacer("{out}", wire.OutFolder, "{change}", wire.OutFolder+"/"+wire.ChangeFile).Replace(`
mkdir -p {out}
rm -rf {change}
export GIT_DIR=.git GIT_WORK_TREE=. GIT_INDEX_FILE="$TMPDIR/svc-index"
rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock"
git read-tree "$SVC_FROM"
git add -A
git diff --cached --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color \
	--src-prefix=a/ --dst-prefix=b/ "$SVC_FROM" -- . ':!{out}' > {change}
`)

// keepChange writes what the steps changed in the checkout as an artifact. It runs in the sandbox like a
// step, since the steps may have changed everything in the checkout. If it fails the log says so, and
// the job's end is the same.
func (x *execution) keepChange(killed context.Context) {
	if !x.Spec.Collect || !x.checkedOut || x.Spec.Source.Commit == "" {
		return
	}
	late := &sandbox.Stop{Reason: reasonStepTimeout}
	stopping, cancel := context.WithTimeoutCause(context.Background(), changeTimeout, late)
	defer cancel()
	r, err := x.runMasked(killed, stopping, sandbox.Command{Args: []string{"sh", "-e", "-c", changeScript}, Env: x.changeEnv()})
	switch {
	case err != nil:
		x.notice("keep what was changed: " + err.Error())
	case r.ExitCode != 0 || r.Stopped != nil:
		x.notice("what was changed could not be kept")
	}
}

const (
	minMasked = 8        // bytes of a secret that is masked in files: shorter ones are in many texts
	maxMasked = 32 << 20 // bytes of a file that is searched for secrets
)

// maskOutput masks secrets in the files of $SVC_OUT. A change that has one is not kept, since it could not be applied.
func (x *execution) maskOutput() error {
	secrets := slices.Collect(maps.Values(x.Spec.Secrets))
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minMasked })
	if !x.Spec.Collect || len(secrets) == 0 {
		return nil
	}
	set := mask.New(secrets...)
	root, err := os.OpenRoot(x.job.Work())
	if err != nil {
		return fmt.Errorf("open working directory: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), wire.OutFolder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > maxMasked {
			x.notice("artifact left out: " + name + " is too large to be searched for secrets")
			return errors.Join(err, root.Remove(name))
		}
		text, err := root.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		var masked bytes.Buffer
		w := set.NewWriter(&masked)
		_, _ = w.Write(text) // a buffer takes everything
		_ = w.Close()
		switch {
		case bytes.Equal(masked.Bytes(), text):
			return nil
		case name != wire.OutFolder+"/"+wire.ChangeFile:
			return root.WriteFile(name, masked.Bytes(), 0o600)
		}
		x.notice("the change contains a secret of the job: it is not kept")
		refused := []byte("The change contains the value of a job secret.")
		return errors.Join(root.Remove(name), root.WriteFile(wire.OutFolder+"/"+wire.RefusedFile, refused, 0o600))
	})
}

// changeEnv returns the variables of changeScript.
func (x *execution) changeEnv() []string {
	env := append(x.job.Env(), "SVC_FROM="+x.Spec.Source.Commit,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
	set := [][2]string{
		{"core.hooksPath", "/dev/null"}, {"core.fsmonitor", "false"}, {"core.attributesFile", "/dev/null"}, {"core.autocrlf", "false"},
		{"core.symlinks", "true"}, {"core.fileMode", "true"}, {"core.quotePath", "true"}, {"core.sparseCheckout", "false"},
		{"core.safecrlf", "false"}, {"safe.directory", "*"}, {"gc.auto", "0"}, {"advice.addEmbeddedRepo", "false"},
		{"diff.ignoreSubmodules", "none"}, {"diff.orderFile", "/dev/null"}, {"diff.relative", "false"},
	}
	env = append(env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(set)))
	for i, kv := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}
