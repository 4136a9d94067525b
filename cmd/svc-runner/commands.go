package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"svc/farm/release"
	"svc/farm/runner"
	"svc/farm/runner/identity"
	"svc/farm/runner/sandbox"
)

// A command is a subcommand of svc-runner.
type command struct {
	flags func(*flag.FlagSet, *options)
	run   func(program, context.Context, options) error
	args  int // number of arguments after the flags
}

// options are the parsed command line.
type options struct {
	data       string
	enrollment identity.Enrollment
	token      string
	tokenFile  string
	labels     string
	capacity   int
	mounts     string
	protocols  string
	diskFree   int64
	jobDisk    int64
	processes  int
	keys       string
	version    string
	json       bool
	end        bool
	force      bool
	args       []string
}

func (o options) folder() identity.Folder { return identity.Folder(o.data) }

var commands = map[string]command{
	"enroll": {run: program.enroll, flags: func(f *flag.FlagSet, o *options) {
		f.StringVar(&o.enrollment.URL, "url", "", "")
		f.StringVar(&o.token, "token", "", "")
		f.StringVar(&o.tokenFile, "token-file", "", "")
		f.StringVar(&o.enrollment.ServerCA, "server-ca", "", "")
		f.StringVar(&o.enrollment.Name, "name", "", "")
		f.StringVar(&o.labels, "labels", "", "")
		f.IntVar(&o.enrollment.Capacity, "capacity", 1, "")
	}},
	"run": {run: program.run, flags: func(f *flag.FlagSet, o *options) {
		f.IntVar(&o.capacity, "capacity", 0, "")
		f.StringVar(&o.mounts, "mount", "", "")
		f.StringVar(&o.protocols, "git-protocols", "https", "")
		f.Int64Var(&o.diskFree, "min-disk-mib", 2048, "")
		f.Int64Var(&o.jobDisk, "max-job-disk-mib", defaultJobDisk, "")
		f.IntVar(&o.processes, "max-processes", sandbox.DefaultProcesses, "")
	}},
	"status": {run: program.status, flags: func(f *flag.FlagSet, o *options) { f.BoolVar(&o.json, "json", false, "") }},
	"drain":  {run: program.drain, flags: func(f *flag.FlagSet, o *options) { f.BoolVar(&o.end, "end", false, "") }},
	"doctor": {run: program.doctor, flags: func(f *flag.FlagSet, o *options) { f.StringVar(&o.mounts, "mount", "", "") }},
	"verify": {run: program.verify, args: 1, flags: func(f *flag.FlagSet, o *options) {
		f.StringVar(&o.keys, "keys", "", "")
		f.StringVar(&o.version, "version", "", "")
	}},
	"uninstall": {run: program.uninstall, flags: func(f *flag.FlagSet, o *options) { f.BoolVar(&o.force, "force", false, "") }},
	"version":   {run: program.version},
}

// flagSet returns the flags of a command, which are parsed into o. Those that are not given keep the values of o.
func (c command) flagSet(o *options) *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.data, "data-dir", o.data, "")
	if c.flags != nil {
		c.flags(flags, o)
	}
	return flags
}

// help prints the help of a command, or that of the program.
func (p program) help(command string) error {
	_, _ = io.WriteString(p.out, helpOf(command)) // there is nowhere to report an error
	return nil
}

// safeWord matches what is safe to quote: a misspelt flag may contain the token.
var safeWord = regexp.MustCompile(`^-{0,2}[a-z][a-z-]{0,19}$`)

func (p program) do(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		return p.help("")
	}
	if args[0] == "help" {
		if args = args[1:]; len(args) == 0 {
			return p.help("")
		}
		if _, ok := commands[args[0]]; ok {
			return p.help(args[0])
		}
	}
	c, ok := commands[args[0]]
	if !ok && safeWord.MatchString(args[0]) {
		return usageError("unknown command " + args[0])
	}
	if !ok {
		return usageError("unknown command")
	}
	o := options{data: p.env.DataDir}
	flags := c.flagSet(&o)
	switch err := flags.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return p.help(args[0])
	case err != nil:
		name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: ")
		if !unknown || !safeWord.MatchString(name) {
			return usageError("a flag of " + args[0] + " is malformed")
		}
		text := args[0] + " has no flag " + name
		if others := commandsWith(strings.TrimLeft(name, "-")); len(others) > 0 {
			text += "; it is one of " + strings.Join(others, " and ")
		}
		return usageError(text)
	case flags.NArg() != c.args:
		return usageError(fmt.Sprintf("%s takes %d arguments besides flags", args[0], c.args))
	}
	o.args = flags.Args()
	return c.run(p, ctx, o)
}

// maxToken bounds what is read as a token; it is far more than a token has.
const maxToken = 4096

// secret returns the enrollment token from the first place that has one.
func (p program) secret(o options) (string, error) {
	switch {
	case o.token != "" && o.tokenFile != "":
		return "", usageError("-token and -token-file exclude each other")
	case o.token != "":
		return o.token, nil
	case o.tokenFile == "":
		if t := p.env.Token.Reveal(); t != "" {
			return t, nil
		}
		return "", usageError("enroll needs a token: SVC_ENROLL_TOKEN, -token-file or -token")
	}
	from := p.in
	if o.tokenFile != "-" {
		f, err := os.Open(o.tokenFile)
		if err != nil {
			return "", fmt.Errorf("read token: %w", err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxToken))
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func (p program) enroll(ctx context.Context, o options) error {
	if o.enrollment.URL == "" {
		return usageError("enroll needs -url, the address of the farm")
	}
	token, err := p.secret(o)
	if err != nil {
		return err
	}
	e := o.enrollment
	e.Token, e.Labels = token, split(o.labels)
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := o.folder().Make(); err != nil {
		return err
	}
	for kind, err := range runner.Sandboxes(ctx, o.folder(), self, nil) {
		if err == nil {
			e.Sandboxes = append(e.Sandboxes, kind)
		}
	}
	id, err := identity.Enroll(ctx, o.folder(), e)
	if err != nil {
		return err
	}
	until := id.NotAfter.UTC().Format(time.RFC3339)
	fmt.Fprintf(p.out, "enrolled as %s, runner %s; the certificate is good until %s\n", id.Name, id.RunnerID, until)
	return nil
}

func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

const (
	minProcesses   = 64        // processes and threads that a step needs before it does anything
	defaultJobDisk = 50 * 1024 // MiB
)

func (p program) run(ctx context.Context, o options) error {
	if o.processes < minProcesses {
		return usageError(fmt.Sprintf("-max-processes: want %d or more", minProcesses))
	}
	if o.jobDisk < 0 {
		return usageError("-max-job-disk-mib: want 0 or more")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	log := slog.New(slog.NewJSONHandler(p.out, &slog.HandlerOptions{Level: p.env.LogLevel}))
	s, err := runner.NewSupervisor(ctx, runner.Config{
		Folder: o.folder(), Program: self, Capacity: o.capacity, Mounts: split(o.mounts), Log: log, Stop: p.signals,
		GitProtocols: strings.Join(split(o.protocols), ":"), MinDiskFree: o.diskFree << 20, MaxProcesses: o.processes,
		MaxJobDisk: o.jobDisk << 20, Environ: p.environ,
		Adopt: true,
	})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

func (p program) status(ctx context.Context, o options) error {
	id, err := o.folder().Identity()
	if err != nil {
		return err
	}
	st, err := runner.AskStatus(ctx, o.folder())
	if errors.Is(err, runner.ErrNotRunning) {
		fmt.Fprintf(p.out, "%s is enrolled at %s, and does not run\n", id.Name, id.URL)
		return errUnwell
	}
	if err != nil {
		return err
	}
	p.show(st, o.json)
	if st.Connected.IsZero() {
		return errUnwell
	}
	return nil
}

func (p program) show(st runner.Status, asJSON bool) {
	if asJSON {
		e := json.NewEncoder(p.out)
		e.SetIndent("", "  ")
		_ = e.Encode(st) // there is nowhere to report an error
		return
	}
	state := "online since " + st.Connected.UTC().Format(time.RFC3339)
	if st.Connected.IsZero() {
		state = "not connected: " + st.LastError
	}
	fmt.Fprintf(p.out, "%s at %s: %s\n", st.Name, st.URL, state)
	if text := st.Unsteady(); text != "" {
		fmt.Fprintln(p.out, text)
	}
	if len(st.Draining) > 0 {
		fmt.Fprintf(p.out, "takes no jobs: asked for by %s\n", strings.Join(st.Draining, ", "))
	}
	fmt.Fprintf(p.out, "jobs: %d of %d; sandboxes: %s; certificate until %s\n",
		len(st.Jobs), st.Capacity, strings.Join(st.Sandboxes, ", "), st.NotAfter.UTC().Format(time.RFC3339))
	for _, j := range st.Jobs {
		fmt.Fprintf(p.out, "  %s  %s  since %s  %s\n", j.Job, j.State, j.Since.UTC().Format(time.RFC3339), j.Name)
	}
}

func (p program) drain(ctx context.Context, o options) error {
	st, err := runner.AskDrain(ctx, o.folder(), o.end)
	if err != nil {
		return err
	}
	p.show(st, false)
	return nil
}

func (p program) doctor(ctx context.Context, o options) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	well := true
	for _, f := range runner.Diagnose(ctx, o.folder(), self, split(o.mounts)) {
		mark := "ok  "
		if !f.OK {
			mark, well = "BAD ", well && f.What == "sandbox "+sandbox.Bubblewrap // jobs can run without it
		}
		fmt.Fprintln(p.out, mark+f.What+": "+f.Text)
	}
	if !well {
		return errUnwell
	}
	return nil
}

func (p program) verify(_ context.Context, o options) error {
	list := split(o.keys)
	if o.keys == "" {
		id, err := o.folder().Identity()
		if err != nil {
			return usageError("verify needs -keys on a machine that is not enrolled")
		}
		list = id.ReleaseKeys
	}
	keys, err := release.ParseKeys(list)
	if err != nil {
		return fmt.Errorf("read keys of releases: %w", err)
	}
	version, err := signedVersion(o.args[0], o.version, keys)
	if err != nil {
		return err
	}
	// Signatures never expire: whoever can write to the farm's folder of releases can put back an
	// old release.
	if o.version == "" && release.Compare(version, runner.Version) < 0 {
		return fmt.Errorf("release %s is signed, but older than this program, %s; with -version=%[1]s it is taken", version, runner.Version)
	}
	fmt.Fprintf(p.out, "%s is of release %s, and signed\n", o.args[0], version)
	return nil
}

// signedVersion returns the signed version of a program, or the one in a latest.json. want is the
// required version, or "" for any.
func signedVersion(path, want string, keys []ed25519.PublicKey) (string, error) {
	if filepath.Base(path) != release.LatestFile {
		sums, err := release.VerifyFile(path, want, keys)
		return sums.Version, err
	}
	latest, err := release.VerifyLatestFile(path, keys)
	if err == nil && want != "" && latest.Version != want {
		err = fmt.Errorf("%s names release %s, not %s", path, latest.Version, want)
	}
	return latest.Version, err
}

func (p program) uninstall(ctx context.Context, o options) error {
	id, _ := o.folder().Identity() // if there is none, nothing has to be revoked
	revokeErr, err := o.folder().Uninstall(ctx, o.force)
	if err != nil {
		return err
	}
	switch {
	case revokeErr == nil:
		fmt.Fprintf(p.out, "removed %s; the runner %s is revoked\n", o.data, id.Name)
	case errors.Is(revokeErr, identity.ErrNotEnrolled):
		fmt.Fprintf(p.out, "removed %s\n", o.data)
	default:
		fmt.Fprintf(p.out, "removed %s, but the farm does not know it (%v): revoke the runner %s on the Build Farm page\n",
			o.data, revokeErr, id.Name)
	}
	return nil
}

func (p program) version(context.Context, options) error {
	fmt.Fprintln(p.out, "svc-runner", runner.Version)
	return nil
}
