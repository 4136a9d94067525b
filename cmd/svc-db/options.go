package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"svc/config"
	"svc/events"
)

// options are the parsed command line.
type options struct {
	url      config.Secret
	user     string
	password config.Secret
	retries  uint
	seed     string
	seedFile string

	workspace   events.ID // zero means all
	seq         int64     // of a parked event
	verifierKey string
	checkpoint  string
	export      string // name of a file
	kept        string // name of a file
	rows        bool   // also compare views with the log
	resume      bool   // go on with rebuilds that were killed

	command string
	views   []string
}

// parseOptions parses the command line, in which flags may come before and after the command. The
// error never quotes a value, because a misspelt flag may contain the password.
func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("svc-db", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&o.url, "url", config.Secret(""), "")
	flags.StringVar(&o.user, "user", "", "")
	flags.TextVar(&o.password, "password", config.Secret(""), "")
	flags.UintVar(&o.retries, "connect-retries", 0, "")
	flags.StringVar(&o.seed, "seed", "", "")
	flags.StringVar(&o.seedFile, "seed-file", "", "")
	flags.Func("workspace", "", o.setWorkspace)
	flags.Int64Var(&o.seq, "seq", 0, "")
	flags.StringVar(&o.verifierKey, "verifier-key", "", "")
	flags.StringVar(&o.checkpoint, "checkpoint", "", "")
	flags.StringVar(&o.export, "export", "", "")
	flags.StringVar(&o.kept, "kept", "", "")
	flags.BoolVar(&o.rows, "views", false, "")
	flags.BoolVar(&o.resume, "resume", false, "")

	var words []string
	for {
		if err := flags.Parse(args); err != nil {
			return o, flagError(err)
		}
		if flags.NArg() == 0 {
			break
		}
		words = append(words, flags.Arg(0))
		args = flags.Args()[1:]
	}
	o.command = "migrate"
	if len(words) > 0 {
		o.command, o.views = words[0], words[1:]
	}
	if o.command == "help" {
		return o, flag.ErrHelp
	}
	return o, o.check()
}

// setWorkspace rejects the zero ID, which means all workspaces.
func (o *options) setWorkspace(text string) (err error) {
	o.workspace, err = events.ParseID(text)
	if err == nil && o.workspace.IsZero() {
		err = errors.New("not the id of a workspace")
	}
	return err
}

// check rejects flags that do not go together.
func (o options) check() error {
	c, known := subcommands[o.command]
	switch {
	case !known && safeWord.MatchString(o.command):
		return fmt.Errorf("unknown command %s", o.command)
	case !known:
		return errors.New("unknown command; a database address goes into -url=")
	case len(o.views) > 0 && !c.views:
		return fmt.Errorf("%s takes no arguments", o.command)
	case o.seed != "" && o.seed != "development":
		return errors.New("-seed can only be development")
	case o.seed != "" && o.command != "migrate":
		return errors.New("-seed goes with migrate")
	case o.seedFile != "" && o.seed == "":
		return errors.New("-seed-file goes with -seed")
	case !o.workspace.IsZero() && !slices.Contains([]string{"rebuild", "retry", "skip", "verify"}, o.command):
		return errors.New("-workspace goes with rebuild, retry, skip and verify")
	case o.resume && (o.command != "rebuild" || !o.workspace.IsZero()):
		return errors.New("-resume goes with rebuild, and not with -workspace")
	case o.seq != 0 && o.command != "skip":
		return errors.New("-seq goes with skip")
	case o.command == "skip" && (len(o.views) != 1 || o.workspace.IsZero() || o.seq == 0):
		return errors.New("skip needs one view, -workspace and -seq, as svc-db parked shows them")
	case o.verifierKey != "" && o.command != "verify" && o.command != "replace-key":
		return errors.New("-verifier-key goes with verify and replace-key")
	case o.verifierKey == "" && o.command == "replace-key":
		return errors.New("replace-key needs -verifier-key, the public side of the lost key, as you stored it elsewhere; " +
			"svc-db verify shows the one in the database")
	case o.checkpoint != "" && (o.command != "verify" || o.workspace.IsZero()):
		return errors.New("-checkpoint goes with verify of one -workspace")
	case o.rows && (o.command != "verify" || o.export != ""):
		return errors.New("-views goes with verify of a database")
	case (o.export == "") != (o.kept == "") || o.export != "" && (o.command != "verify" || !o.workspace.IsZero()):
		return errors.New("-export and -kept go with each other and verify, and not with -workspace")
	}
	return nil
}

// safeWord matches what is safe to quote in an error.
var safeWord = regexp.MustCompile(`^[a-z][a-z-]{0,19}$`)

func flagError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		if safeWord.MatchString(name) {
			return fmt.Errorf("unknown flag -%s", name)
		}
		return errors.New("unknown flag")
	}
	if strings.HasPrefix(text, "flag needs an argument: ") {
		return err
	}
	if strings.Contains(text, "-connect-retries") {
		return errors.New("-connect-retries must be a number, 0 or more")
	}
	if strings.Contains(text, "-seq") {
		return errors.New("-seq must be a number")
	}
	if strings.Contains(text, "-workspace") {
		return errors.New("-workspace must be the id of a workspace")
	}
	return errors.New("a flag is written -name=value")
}
